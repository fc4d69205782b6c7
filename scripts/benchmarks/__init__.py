"""The measurements of scripts/bench: one module for each thing that is measured."""
