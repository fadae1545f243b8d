"""What the course adds to nmtcheck: checks of parts, nmtlib's adapter, and planted bugs."""
