"""A library as its user has it: built on this host, signed, and loaded."""

from pathlib import Path
from typing import Any

from templates.template import Config, Template
from templates.workload import Workload
from tuner.build.compile import BuildOrder, build, program_of
from tuner.device.detect import detect
from tuner.job import artifact
from tuner.library.load import Library, load
from tuner.library.signing_key import default_path, own_key
from tuner.process.child import Child


def loaded(
    work: Workload, template: Template[Any], config: Config, child: Child, path: Path
) -> Library:
    """The library of a configuration, built in the child."""
    device = child.call(detect, "cuda", timeout=60)
    order = BuildOrder(work.key, program_of(template), config, device.target, path)
    built = child.call(build, order, timeout=120)
    assert built.status == "ok", built.error
    manifest = artifact.manifest(
        work,
        device,
        config=config,
        template_version=template.version,
        threads=None,
        versions={},
        timing={},
        max_error=1e-7,
        named=artifact.files("cuda", path.read_bytes(), built.source, {}),
        workspace=built.workspace,
    )
    made = artifact.signed_manifest(manifest, own_key(default_path()))
    for file, suffix in zip(made, (".json", ".sig"), strict=True):
        path.with_suffix(suffix).write_bytes(file.content)
    return load(path)
