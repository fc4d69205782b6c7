"""What scripts/up, scripts/install_plugins.py and the end-to-end tests share.

Standard library only: these modules run before anything is installed.
"""
