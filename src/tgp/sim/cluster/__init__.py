"""What runs beside an API server: controllers and kubelets, as small as will do."""
