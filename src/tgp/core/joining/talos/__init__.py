"""Machine configs that Talos accepts: made, converted, checked."""
