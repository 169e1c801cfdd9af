"""Opens the storage behind an fsspec address, such as s3://bucket/prefix or sftp://host/path."""

import logging
from collections.abc import Callable
from typing import Any

from holdfast.known_hosts import known_hosts_policy

REQUESTS_AT_ONCE = 64  # to one storage, where requests need no thread
CONNECT_SECONDS = 15.0
PARTIAL_CONTENT = 206


def open_system(address: str) -> tuple[Any, str]:
    """Return the file system behind an address, and the path within it."""
    import fsspec  # noqa: PLC0415 - a tenth of the start of a command that reads local files

    system, root = fsspec.url_to_fs(address, **_options(address.partition("://")[0]))
    return system, root


def lists_all(system: Any) -> bool:
    """Return whether one listing goes through all prefixes, page by page.

    The listing that fsspec makes itself leaves out what can't be listed.
    """
    from fsspec import AbstractFileSystem  # noqa: PLC0415 - as above
    from fsspec.asyn import AsyncFileSystem  # noqa: PLC0415

    if getattr(system, "async_impl", False):
        return type(system)._find is not AsyncFileSystem._find  # noqa: SLF001
    return type(system).find is not AbstractFileSystem.find


def is_beyond_end(error: BaseException | None) -> bool:
    """Return whether a server says that an object ends before a range of it."""
    return "InvalidRange" in str(error) or getattr(error, "status", None) == 416


def gives_ranges(system: Any, path: str, call: Callable[..., Any]) -> bool:
    """Return whether an S3 server answers for a range of an object by one, and not by a web page.

    `call` calls a method of the file system. Other storage than S3 is not asked.
    """
    if not hasattr(system, "call_s3"):
        return True
    bucket, key, _ = system.split_path(path)
    try:
        answer = call("call_s3", "get_object", Bucket=bucket, Key=key, Range="bytes=0-0")
    except Exception as error:
        if is_beyond_end(error):  # it is empty
            return True
        raise
    answer["Body"].close()
    return bool(answer["ResponseMetadata"]["HTTPStatusCode"] == PARTIAL_CONTENT)


def _options(protocol: str) -> dict[str, Any]:
    match protocol:
        case "s3" | "s3a":
            pool = {"max_pool_connections": REQUESTS_AT_ONCE}
            return {"use_listings_cache": False, "config_kwargs": pool}
        case "sftp" | "ssh":
            # What it logs is raised as well, and would be printed with a traceback.
            logging.getLogger("paramiko").setLevel(logging.CRITICAL)
            timeouts = dict.fromkeys(("timeout", "banner_timeout", "auth_timeout"), CONNECT_SECONDS)
            policy = {"host_key_policy": known_hosts_policy()}
            return {"skip_instance_cache": True, **timeouts, **policy}
        case _:
            return {"use_listings_cache": False}
