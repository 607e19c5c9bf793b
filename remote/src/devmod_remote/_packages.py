"""The packages that fsspec's file systems need, and the commands that install them."""

from __future__ import annotations

from devmod.errors import describe_error, not_installed, own_module

#: What pip installs for a module that fsspec imports. A module that is not here has fsspec's own text: its distribution may have another
#: name, which anyone may register.
_REQUIREMENTS = {
    **{
        name: name
        for name in (
            "adlfs", "boxfs", "distributed", "dvc", "gcsfs", "ocifs", "ossfs", "paramiko", "pyarrow", "pygit2", "requests", "s3fs", "tosfs",
            "wandbfs",
        )
    },
    "dropboxdrivefs": "fsspec[dropbox]",
    "fsspec_xrootd": "fsspec-xrootd",
    "huggingface_hub": "huggingface-hub",
    "lakefs_spec": "lakefs-spec",
    "libarchive": "libarchive-c",
    "morefs": "morefs[asynclocalfs]",
    "smbclient": "smbprotocol",
    "webdav4": "webdav4[fsspec]",
}  # fmt: skip


def describe_import(error: ImportError) -> str:
    """Return why a file system of fsspec cannot be imported, with the command that installs a missing package if that is known."""
    cause = error.__cause__ or error  # fsspec raises its own text from the error of the import
    name = (cause.name or "").partition(".")[0] if isinstance(cause, ModuleNotFoundError) else ""
    own = own_module(error=error)
    if own:
        return f"{describe_error(error)}: {own}"
    requirement = _REQUIREMENTS.get(name)
    if requirement:
        return not_installed(f"the package {name}", requirement)
    return str(error) if cause is error else f"{error} ({describe_error(cause)})"
