"""Compile the contract and write the artefacts that ship: `python -m holdfast.ledger.build`.

Needs Vyper, which users don't: a test compiles again and compares.
"""

import hashlib
from pathlib import Path, PurePath

import vyper
from vyper.compiler.input_bundle import JSONInputBundle

from holdfast import atomic
from holdfast.ledger.artefact import SECTORS, Artefact, file_name, source_hash, sources


def compile_contract(sectors: int, contract: dict[str, str]) -> Artefact:
    modules = {PurePath("check.vy"): {"content": contract["check.vy"]}}
    output = vyper.compile_code(
        contract["audit.vy"],
        input_bundle=JSONInputBundle(modules, [PurePath()]),
        output_formats=["abi", "bytecode", "bytecode_runtime"],
    )
    return Artefact(
        sectors=sectors,
        compiler=f"vyper {vyper.__version__}",
        source_sha256=source_hash(contract),
        abi=output["abi"],
        bytecode=output["bytecode"],
        code_sha256=hashlib.sha256(bytes.fromhex(output["bytecode_runtime"][2:])).hexdigest(),
    )


def write_artefacts(folder: Path, *numbers: int) -> None:
    """Compile the contract for these numbers of sectors a block, and write the artefacts."""
    for sectors in numbers:
        artefact = compile_contract(sectors, sources(sectors))
        atomic.write(folder / file_name(sectors), artefact.encode())


if __name__ == "__main__":
    write_artefacts(Path(__file__).parent / "contract", *SECTORS)
