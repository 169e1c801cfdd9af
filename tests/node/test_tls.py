"""TLS: a node shows its certificate, and a client goes only where its authority vouches."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from tests.support.memory_holding import Holding
from tests.support.node_env import Site, put, serving

from holdfast.errors import InputError, NodeError
from holdfast.node.client import NodeClient, node_facts
from holdfast.node.serving import Certificate, RunningNode


def certificate(directory: Path) -> Certificate:
    """Write a certificate for 127.0.0.1 that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a node of the tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, SHA256())
    )
    shown = Certificate(directory / "node.pem", directory / "node.private.pem")
    shown.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    shown.private_key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return shown


def test_a_client_goes_only_to_a_node_that_its_authority_vouches_for(
    site: Site, tmp_path: Path
) -> None:
    shown, kept = certificate(tmp_path), Holding.of(3000)
    with site.node() as node, serving(RunningNode(node, "127.0.0.1", 0, shown)) as url:
        assert url.startswith("https://")
        with NodeClient(
            url, site.owner, node.key.address, authority=shown.certificate, clock=site.clock
        ) as client:
            put(client, kept)
            challenge = kept.challenge_all()
            answer = client.prove(kept.key.public.id, challenge)
            assert kept.verify(challenge, answer.proof)
        facts = node_facts(url, authority=shown.certificate)
        assert facts.address == node.key.address.hex()
        with pytest.raises(NodeError, match="certificate verify failed"):
            node_facts(url)
        with pytest.raises(NodeError, match="took the request and gave no answer"):
            node_facts(url.replace("https", "http"))


@pytest.mark.parametrize("url", ["ftp://node", "node:8470", "", "http://", "http://[::", "x"])
def test_what_is_no_address_of_a_node_is_refused(url: str) -> None:
    with pytest.raises(InputError):
        node_facts(url)


def test_a_file_that_is_no_authority_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(InputError, match=r"none\.pem"):
        node_facts("https://127.0.0.1:1", authority=tmp_path / "none.pem")
