"""A database that accepts only TLS."""

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from rookery.errors import StorageError
from rookery.fleet.database import connect, create_tables
from rookery.fleet.orders import Fleet
from support.postgres import Postgres


@pytest.fixture
def tls() -> Iterator[Postgres]:
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate with")
    with closing(Postgres(tls=True)) as server:
        yield server


def test_connections_are_encrypted_and_the_server_is_verified(tls: Postgres, tmp_path: Path):
    certificate = tmp_path / "root.crt"
    certificate.write_bytes(tls.certificate)
    address = tls.address("postgres")
    with pytest.raises(StorageError, match="cannot be reached"):
        connect(f"{address}?sslmode=disable")
    verified = f"{address}?sslmode=verify-full&sslrootcert={certificate}"
    with connect(verified) as database:
        create_tables(database)
        ssl = "select ssl from pg_stat_ssl where pid = pg_backend_pid()"
        assert database.execute(ssl).fetchone() == (True,)
    with closing(Fleet(verified)) as fleet:
        assert fleet.workers() == []
    stranger = f"{address.replace('127.0.0.1', 'localhost')}?sslmode=verify-full"
    with pytest.raises(StorageError, match="cannot be reached"):
        connect(f"{stranger}&sslrootcert={certificate}")
