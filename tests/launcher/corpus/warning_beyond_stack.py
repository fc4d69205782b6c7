import warnings

warnings.warn("whose fault", stacklevel=2)
