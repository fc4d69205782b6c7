"""The optional service over sandbox_core: code runs for many users, by HTTP and MCP."""
