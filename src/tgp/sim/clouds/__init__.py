"""Simulated providers: one fleet engine, and a simulator per provider that speaks its wire format on top of it."""
