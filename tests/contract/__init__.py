"""What every engine and every runner must do, on real ones."""
