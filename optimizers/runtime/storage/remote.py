"""File systems that pyarrow reaches: object stores and HDFS."""

from collections.abc import Callable
from functools import cached_property

import pyarrow as pa
import pyarrow.fs

from optimizers.runtime.storage.disk import Content, Disk, NoFenceError
from optimizers.runtime.storage.fence import Fence


class RemoteDisk(Disk):
    """A file system that pyarrow reaches: S3, Google's and Azure's stores, HDFS.

    pyarrow has no operation that refuses a name that is taken; the fence does that.

    Args:
        files: the file system.
        fence: makes the fence. Only a process that needs it calls this: the driver.
        whole: whether a file appears under its name whole, replacing what was there, as objects do;
            otherwise it can be seen while it is written.
        folders: whether a folder has to be made before files are written there.
    """

    def __init__(
        self,
        files: pyarrow.fs.FileSystem,
        fence: Callable[[], Fence],
        *,
        whole: bool,
        folders: bool,
    ) -> None:
        self._files = files
        self._make_fence = fence
        self._whole = whole
        self._folders = folders

    def read(self, path: str, *, mapped: bool) -> pa.Buffer:
        """Return the content of the file."""
        with self._files.open_input_file(path) as source:
            return source.read_buffer()

    def put(self, path: str, content: Content) -> None:
        """Write the file under its name at once; closing it makes it durable.

        A file that is cut off is garbage that nothing refers to, as its name is unique.
        """
        try:
            sink = self._files.open_output_stream(path)
        except FileNotFoundError:
            self.make_folder(path.rpartition("/")[0])
            sink = self._files.open_output_stream(path)
        with sink:
            sink.write(content)

    def put_new(self, path: str, content: Content) -> None:
        """Write a file that must not be there yet, by the fence."""
        self._fence.create(path, content)

    def put_over(self, path: str, content: Content) -> None:
        """Write a file, replacing any of this name."""
        if not self._whole:
            raise NoFenceError("pyarrow replaces files there by removing the old one first")
        self.put(path, content)

    def delete(self, path: str) -> None:
        """Remove a file."""
        self._files.delete_file(path)

    def exists(self, path: str) -> bool:
        """Return whether there is a file."""
        kind = self._files.get_file_info(path).type
        return bool(kind == pyarrow.fs.FileType.File)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the size of each file below a folder, by its name relative to it."""
        wanted = pyarrow.fs.FileSelector(folder, recursive=True, allow_not_found=True)
        prefix = f"{folder}/"
        return {
            found.path.removeprefix(prefix): found.size
            for found in self._files.get_file_info(wanted)
            if found.type == pyarrow.fs.FileType.File
        }

    def entries(self, folder: str) -> list[str]:
        """Return the names of files and folders directly in a folder, if it is there."""
        wanted = pyarrow.fs.FileSelector(folder, allow_not_found=True)
        found = [found.base_name for found in self._files.get_file_info(wanted)]
        # On Google's store pyarrow does not list folders that are only prefixes of names.
        return found or list(dict.fromkeys(name.split("/")[0] for name in self.sizes(folder)))

    def make_folder(self, path: str) -> None:
        """Make a folder, unless files make their own."""
        if self._folders:
            self._files.create_dir(path, recursive=True)

    @cached_property
    def _fence(self) -> Fence:
        return self._make_fence()
