#!/usr/bin/env python3
"""PostgreSQL under power cuts: every transaction that was acknowledged is there afterwards.

Needs PostgreSQL's server (where `pg_config --bindir` says, or on PATH) and its user postgres.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import cuts

USER = "postgres"


def program(name: str) -> str:
    """Where a program of PostgreSQL is."""
    config = shutil.which("pg_config")
    folders = [cuts.command(config, "--bindir")] if config else []
    folders += sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True)
    for folder in folders:
        if found := shutil.which(name, path=folder):
            return found
    found = shutil.which(name)
    if not found:
        raise SystemExit(f"error: {name} not found\nhint: apt-get install postgresql")
    return found


class PostgreSql(cuts.Program):
    """Rows of a table, a transaction each."""

    def create(self, folder: Path) -> None:
        data = folder / "pg"
        data.mkdir(mode=0o700)
        shutil.chown(data, USER, USER)
        cuts.command("runuser", "-u", USER, "--", program("initdb"), "--no-sync", "-D", data)
        with self._running(folder) as ask:
            ask("CREATE TABLE rows (number integer PRIMARY KEY, filling text)")

    def count(self, folder: Path) -> int:
        try:
            with self._running(folder) as ask:
                count, last = ask("SELECT count(*), coalesce(max(number), 0) FROM rows").split("|")
        except (subprocess.CalledProcessError, ValueError, SystemExit) as problem:
            raise cuts.Lost(f"the database does not come back: {problem}") from None
        if count != last:
            raise cuts.Lost(f"{count} rows up to {last}")
        return int(count)

    def commit(self, folder: Path, last: int, begun: Callable[[], None]) -> int:
        first = last
        with self._running(folder) as _, self._session() as session:
            assert session.stdin is not None and session.stdout is not None
            with contextlib.suppress(OSError):
                while True:
                    row = f"({last + 1}, repeat('x', 200))"
                    session.stdin.write(f"INSERT INTO rows VALUES {row} RETURNING number;\n")
                    session.stdin.flush()
                    if session.stdout.readline().strip() != str(last + 1):
                        break
                    last += 1
                    if last == first + 1:
                        begun()
        return last

    @contextlib.contextmanager
    def _running(self, folder: Path) -> Iterator[Callable[[str], str]]:
        """A server on the folder; what is given asks it something. It is killed at the end, as a
        machine that loses its power: recovery is what is tested."""
        data = folder / "pg"
        # A cut leaves it there, and its number may belong to another process by now.
        (data / "postmaster.pid").unlink(missing_ok=True)
        with tempfile.TemporaryDirectory(prefix="power-cuts-pg-") as name:
            self._socket = Path(name)
            shutil.chown(name, USER, USER)
            words = ["runuser", "-u", USER, "--", program("postgres"), "-D", str(data)]
            options = {"listen_addresses": "", "unix_socket_directories": name}
            options["fsync"] = "on" if self.fsync else "off"
            for key, value in options.items():
                words += ["-c", f"{key}={value}"]
            quiet = subprocess.DEVNULL
            server = subprocess.Popen(words, stdout=quiet, stderr=quiet, start_new_session=True)
            try:
                ready = [program("pg_isready"), "-q", "-h", name]
                cuts.wait_for(
                    lambda: server.poll() is not None or subprocess.call(ready) == 0, "no server"
                )
                yield self._ask
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.pid, signal.SIGKILL)
                server.wait()
                _kill_rest(data)

    def _session(self) -> subprocess.Popen[str]:
        # A statement that fails prints nothing: without this nobody would say more.
        words = ["psql", "-qAtX", "-v", "ON_ERROR_STOP=1", "-h", str(self._socket)]
        words += ["-U", USER, "postgres"]
        pipe, quiet = subprocess.PIPE, subprocess.DEVNULL
        return subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=quiet, text=True)

    def _ask(self, words: str) -> str:
        asked = ["psql", "-qAtX", "-h", str(self._socket), "-U", USER, "-c", words, "postgres"]
        return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def _kill_rest(data: Path) -> None:
    """Ends what the server has left behind: its processes work in its folder."""
    owner = pwd.getpwnam(USER).pw_uid

    def working() -> list[int]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if process.stat().st_uid == owner and (process / "cwd").readlink() == data:
                    found.append(int(process.name))
        return found

    def none_left() -> bool:
        for pid in (left := working()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    cuts.wait_for(none_left, "PostgreSQL's processes did not end")


if __name__ == "__main__":
    cuts.main(PostgreSql, __doc__ or "")
