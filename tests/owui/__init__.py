"""Support for tests that drive a real Open WebUI: by REST and by a real browser."""
