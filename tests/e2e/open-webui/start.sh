#!/bin/bash
# Starts the server, as the official image's script of this name does.
exec python3 -c 'from open_webui import app; app()' serve --host 0.0.0.0 --port 8080
