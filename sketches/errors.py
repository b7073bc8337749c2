"""The errors of the sketches, and the root of all errors of Penstock.

::

    PenstockError
    ├── InvalidValueError   a number out of its range, or lists that do not fit  (ValueError)
    ├── InvalidKeyError     a key that cannot be counted, or not of this kind    (TypeError)
    ├── EmptySketchError    a question about a stream without a tuple            (LookupError)
    ├── MergeError          two sketches that do not describe one hash           (ValueError)
    ├── CorruptDataError    bytes that are truncated, damaged or foreign         (ValueError)
    └── MissingPackageError a package that is not installed                      (ImportError)

``optimizers.errors`` continues the tree. Each message names the value and the remedy.
"""


class PenstockError(Exception):
    """Anything that Penstock refuses. Catch this to catch all of them."""


class InvalidValueError(PenstockError, ValueError):
    """A number is out of its range, or arrays do not have the same length."""


class InvalidKeyError(PenstockError, TypeError):
    """A key is of a type that keys cannot have, or of another kind than those before it."""


class EmptySketchError(PenstockError, LookupError):
    """A sketch that has seen nothing was asked for something only a stream can tell."""


class MergeError(PenstockError, ValueError):
    """Two sketches differ in shape, seed, backend or kind of key and cannot be added."""


class CorruptDataError(PenstockError, ValueError):
    """Bytes are truncated, damaged, of another type or of a version this build cannot read."""


class MissingPackageError(PenstockError, ImportError):
    """A function needs a package that is not installed here."""
