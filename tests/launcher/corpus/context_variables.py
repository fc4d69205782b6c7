import contextvars
import locale

variable = contextvars.ContextVar("variable", default="unset")
print(variable.get(), len(contextvars.copy_context()))
print(locale.setlocale(locale.LC_ALL), locale.getpreferredencoding())
