"""The takeover, run for real on a loop device: what is on the disk afterwards, and what stays as it was."""

import base64
import gzip
import lzma
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.takeover.factory import Counter, handing_out
from tests.takeover.rig import CLOUD_INIT, EFIVAR, IMAGE_MIB, MIB, SECTOR, Rig, a_disk_image, a_machine, partitions
from tgp.core.joining.talos import takeover
from tgp.core.model.boot_image import BootImage
from tgp.core.model.talos import TalosVersion
from tools.toolbox.find import find
from tools.toolbox.pins import DISK_READERS, Tool

pytestmark = pytest.mark.root

SECRET = "join-secret-of-the-cluster"
CONFIG = f"version: v1alpha1\nmachine:\n  token: {SECRET}\n" + "".join(f"# {line}\n" for line in range(900))
NODE = "train-7-1a2b3c4d"


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return a_disk_image(tmp_path_factory.mktemp("image") / "image")


@pytest.fixture(scope="module")
def packed(raw: bytes) -> bytes:
    return lzma.compress(raw, preset=0)


@pytest.fixture
def factory(packed: bytes) -> Iterator[Counter]:
    with handing_out(Counter({".xz": packed})) as counter:
        yield counter


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Rig]:
    with a_machine(tmp_path) as rig:
        yield rig


def image_at(factory: Counter) -> BootImage:
    return BootImage(TalosVersion(13, 0), "3" * 64, "", raw_url=f"{factory.stem}.xz")


def by_cloud_init(machine: Rig, factory: Counter, config: str = CONFIG) -> subprocess.CompletedProcess[str]:
    """Does with the cloud-config what cloud-init does."""
    first, _, rest = takeover.cloud_config(config, image_at(factory), NODE).partition(b"\n")
    assert first == b"#cloud-config"
    told = msgspec.json.decode(rest)
    for file in told["write_files"]:
        target = machine.root / file["path"].lstrip("/")
        assert file["encoding"] == "gz+b64"
        target.write_bytes(gzip.decompress(base64.b64decode(file["content"])))
        target.chmod(int(file["permissions"], 8))
    (command,) = told["runcmd"]
    return machine.run(*command)


def by_script(machine: Rig, factory: Counter) -> subprocess.CompletedProcess[str]:
    machine.write("startup.sh", takeover.start_up_script(CONFIG, image_at(factory), NODE))
    return machine.run("sh", machine.root / "startup.sh")


def took_over(machine: Rig, done: subprocess.CompletedProcess[str]) -> None:
    assert machine.sysrq == "sub", f"{done.stdout}\n{done.stderr}\n{machine.console}"
    assert machine.console.splitlines()[-1] == "tgp: 9/9 Talos is written; starting it"


def check_disk(machine: Rig, raw: bytes, config: str = CONFIG) -> None:
    """By programs that are not ours: the partition table, the partitions, the config beside them."""
    verdict = subprocess.run(["sgdisk", "--verify", machine.backing], capture_output=True, text=True, check=True)
    assert "No problems found" in verdict.stdout, verdict.stdout
    *theirs, ours = partitions(machine.backing)
    (machine.root / "image").write_bytes(raw)
    assert [_facts(part) for part in theirs] == [_facts(part) for part in partitions(machine.root / "image")]
    assert ours["name"] == "cidata"
    assert ours["start"] == max(part["start"] + part["size"] for part in theirs)
    content = machine.backing.read_bytes()
    for part in theirs:
        there = slice(part["start"] * SECTOR, (part["start"] + part["size"]) * SECTOR)
        assert content[there] == raw[there], part["name"]
    at, size = ours["start"] * SECTOR, ours["size"] * SECTOR
    probe = ["blkid", "--probe", "--offset", str(at), "--size", str(size), "--output", "export", machine.backing]
    told = subprocess.run(probe, capture_output=True, text=True, check=True).stdout.splitlines()
    assert {"TYPE=vfat", "LABEL=cidata"} <= set(told)
    assert _file(machine, at, "user-data") == config
    assert _file(machine, at, "meta-data") == f"instance-id: {NODE}\nlocal-hostname: {NODE}\n"


def _facts(part: dict[str, object]) -> tuple[object, ...]:
    return part["start"], part["size"], part["type"], part["uuid"], part["name"]


def _file(machine: Rig, at: int, name: str) -> str:
    shown = ["mtype", "-i", f"{machine.backing}@@{at}", f"::{name}"]
    return subprocess.run(shown, capture_output=True, text=True, check=True).stdout


def test_cloud_init_writes_talos_and_its_config_over_the_disk(machine: Rig, factory: Counter, raw: bytes):
    done = by_cloud_init(machine, factory)

    took_over(machine, done)
    check_disk(machine, raw)


@pytest.mark.parametrize("reader", DISK_READERS, ids=lambda tool: tool.version)
def test_talos_itself_would_find_its_config_there(machine: Rig, factory: Counter, reader: Tool):
    """It looks for a filesystem it knows, on a volume or partition of that label."""
    took_over(machine, by_cloud_init(machine, factory))
    told = subprocess.run([find(reader), machine.backing], capture_output=True, text=True, check=True)
    seen = msgspec.json.decode(told.stdout)
    volumes = [(part["PartitionLabel"], part["Name"], part["Label"]) for part in seen["Parts"] if part["Name"]]

    assert seen["Name"] == "gpt"
    assert volumes == [("cidata", "vfat", "cidata")]


def test_a_start_up_script_does_the_same_and_leaves_nothing_of_itself(machine: Rig, factory: Counter, raw: bytes):
    done = by_script(machine, factory)

    took_over(machine, done)
    check_disk(machine, raw)
    assert machine.read("startup.sh") == ""


def test_each_step_is_said_on_the_console_and_no_secret_is(machine: Rig, factory: Counter):
    done = by_cloud_init(machine, factory)
    steps = [line.split()[1] for line in machine.console.splitlines() if line.split()[1].endswith("/9")]

    assert steps == [f"{number}/9" for number in range(1, 10)]
    assert SECRET not in machine.console + done.stdout + done.stderr


def test_what_cloud_init_was_told_is_blanked(machine: Rig, factory: Counter):
    took_over(machine, by_cloud_init(machine, factory))

    assert [machine.read(path) for path in CLOUD_INIT] == ["", ""]
    assert machine.read("run/tgp/cidata") == ""


def test_an_image_that_is_still_being_built_is_asked_for_again(machine: Rig, factory: Counter, raw: bytes):
    factory.busy, factory.moved, factory.cut = 2, True, 1
    done = by_cloud_init(machine, factory)

    took_over(machine, done)
    check_disk(machine, raw)
    assert any("/elsewhere/" in asked for asked in factory.asked)


@pytest.mark.parametrize("without", [("xz",), ("xz", "zstd"), ("curl",)])
def test_a_system_that_lacks_a_program_uses_what_it_has(
    machine: Rig, factory: Counter, raw: bytes, without: tuple[str, ...], tmp_path: Path
):
    ending = {("xz",): ".zst", ("xz", "zstd"): ".gz"}.get(without, ".xz")
    if ending == ".zst":
        squeezed = subprocess.run(["zstd", "-1", "-c"], input=raw, capture_output=True, check=True)
        factory.files = {".zst": squeezed.stdout}
    elif ending == ".gz":
        factory.files = {".gz": gzip.compress(raw, 1)}
    few = tmp_path / "bin"
    few.mkdir()
    for folder in ("/usr/bin", "/bin", "/usr/sbin", "/sbin"):
        for program in Path(folder).iterdir():
            if program.name not in without and not (few / program.name).exists():
                (few / program.name).symlink_to(program)
    machine.environment["TGP_PATH"] = f"{machine.root}/stubs:{few}"
    done = by_cloud_init(machine, factory)

    took_over(machine, done)
    check_disk(machine, raw)
    assert factory.asked[-1].endswith(ending)


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def secure_boot(machine: Rig, factory: Counter) -> None:
    machine.write(EFIVAR, b"\x06\0\0\0\x01")


def in_use(machine: Rig, factory: Counter) -> None:
    (machine.place / "holders" / "dm-0").mkdir(parents=True)


def partition_in_use(machine: Rig, factory: Counter) -> None:
    (machine.place / f"{machine.disk.name}p1" / "holders" / "md127").mkdir(parents=True)


def mapped(machine: Rig, factory: Counter) -> None:
    mapped = machine.root / "sys/devices/block/dm-0"
    mapped.mkdir()
    (machine.root / "sys/dev/block/253:0").symlink_to(mapped)
    machine.mounted_from("253:0")


def on_no_disk(machine: Rig, factory: Counter) -> None:
    machine.mounted_from("0:31")


def large_sectors(machine: Rig, factory: Counter) -> None:
    (machine.place / "queue/logical_block_size").write_text("4096\n")


def cannot_be_written(machine: Rig, factory: Counter) -> None:
    (machine.place / "ro").write_text("1\n")


def little_memory(machine: Rig, factory: Counter) -> None:
    machine.write("proc/meminfo", "MemAvailable: 131072 kB\n")


def a_seed_of_the_providers(machine: Rig, factory: Counter) -> None:
    machine.write("dev/sr0", "")
    link = machine.root / "dev/disk/by-label/cidata"
    link.parent.mkdir(parents=True)
    link.symlink_to(machine.root / "dev/sr0")


def a_serial_that_says_more(machine: Rig, factory: Counter) -> None:
    machine.write("sys/class/dmi/id/product_serial", "ds=nocloud-net;s=http://169.254.169.254/seed/\n")


def never_whole(machine: Rig, factory: Counter) -> None:
    factory.cut = 99


def never_built(machine: Rig, factory: Counter) -> None:
    factory.busy = 99


def a_page_of_a_proxy(machine: Rig, factory: Counter) -> None:
    factory.files = {".xz": b"<!DOCTYPE html><html><body>Just a moment...</body></html>"}


def damaged(machine: Rig, factory: Counter) -> None:
    content = bytearray(factory.files[".xz"])
    content[len(content) // 2] ^= 0xFF
    factory.files = {".xz": bytes(content)}


def no_disk_image(machine: Rig, factory: Counter) -> None:
    factory.files = {".xz": lzma.compress(b"no partition table" * 5000)}


def cut_before_it_was_packed(machine: Rig, factory: Counter) -> None:
    factory.files = {".xz": lzma.compress(lzma.decompress(factory.files[".xz"])[: 4 * MIB], preset=0)}


def another_machine(machine: Rig, factory: Counter) -> None:
    machine.environment["TGP_PATH"] = f"{machine.root}/stubs:/usr/sbin:/usr/bin:/sbin:/bin"
    machine.write("stubs/uname", "#!/bin/sh\necho aarch64\n")
    (machine.root / "stubs/uname").chmod(0o755)


def no_sysrq(machine: Rig, factory: Counter) -> None:
    (machine.root / "proc/sysrq-trigger").unlink()


@pytest.mark.parametrize(
    ("arrange", "words"),
    [
        (secure_boot, "Secure Boot is on"),
        (in_use, "in use by dm-0"),
        (partition_in_use, "in use by md127"),
        (mapped, "dm-0, which is not a plain disk"),
        (on_no_disk, "not on a plain disk"),
        (large_sectors, "sectors of 4096 bytes"),
        (cannot_be_written, "cannot be written to"),
        (little_memory, "MiB of memory are needed, 128 are free"),
        (a_seed_of_the_providers, "is labelled cidata as well"),
        (a_serial_that_says_more, "Talos would read that one"),
        (never_whole, "the image is incomplete"),
        (never_built, "did not serve the image in 3 tries"),
        (a_page_of_a_proxy, "the downloaded file is damaged or not an image"),
        (damaged, "the downloaded file is damaged or not an image"),
        (no_disk_image, "no partition table"),
        (cut_before_it_was_packed, "ends before its last partition"),
        (another_machine, "this machine is arm64"),
        (no_sysrq, "accepts no sysrq commands"),
    ],
)
def test_what_goes_wrong_before_leaves_the_disk_as_it_was_says_why_and_switches_off(
    machine: Rig, factory: Counter, arrange, words: str
):
    arrange(machine, factory)
    before = machine.digest()
    done = by_cloud_init(machine, factory)

    assert done.returncode == 1
    assert words in machine.console, machine.console + done.stderr
    assert machine.digest() == before
    assert machine.sysrq == ""
    assert "systemctl poweroff --no-block" in machine.ended
    assert SECRET not in machine.console + done.stdout + done.stderr
    assert machine.read("run/tgp/cidata") == ""


@pytest.mark.parametrize(
    ("mib", "words"), [(IMAGE_MIB - 4, "the disk has less"), (IMAGE_MIB + 1, "no space is left on the disk")]
)
def test_a_disk_that_is_too_small_is_left_alone(tmp_path: Path, factory: Counter, mib: int, words: str):
    with a_machine(tmp_path, mib=mib) as machine:
        before = machine.digest()
        by_cloud_init(machine, factory)

        assert words in machine.console
        assert machine.digest() == before
        assert machine.sysrq == ""


@pytest.mark.parametrize("options", [("rw", ""), ("ro", "rw")])
def test_filesystems_that_go_on_being_written_stop_it(machine: Rig, factory: Counter, monkeypatch, options):
    """What they would write later would be written into Talos."""
    machine.mounted_from(machine.number, *options)
    monkeypatch.setattr(machine, "mounted_from", lambda *_: None)
    machine.write("stubs/sleep", "#!/bin/sh\n")
    (machine.root / "stubs/sleep").chmod(0o755)
    before = machine.digest()
    by_cloud_init(machine, factory)

    assert "still being written to" in machine.console
    assert (machine.sysrq, machine.digest()) == ("su", before)


def test_a_disk_that_breaks_while_it_is_written_is_told_of(tmp_path: Path, factory: Counter):
    """Nothing can be saved any more: the machine goes off, and its provider shows it so."""
    with a_machine(tmp_path, breaks_at=4 * MIB) as machine:
        by_cloud_init(machine, factory)

        assert "stopped at 8/9: the disk cannot be written" in machine.console
        assert machine.sysrq == "suo"


def test_only_root_touches_anything(tmp_path: Path, factory: Counter):
    program = tmp_path / takeover.PROGRAM
    program.write_bytes(takeover.program())
    folder = tmp_path / "home"
    folder.mkdir()
    for each in (folder, *tmp_path.parents, tmp_path, program):
        each.chmod(each.stat().st_mode | 0o777) if each in (folder, program) else each.chmod(
            each.stat().st_mode | 0o755
        )
    environment = {
        "PATH": "/usr/bin:/bin",
        "TGP_ROOT": str(folder),
        "TGP_CONSOLE": str(folder / "console"),
        "TGP_PROC": str(folder / "proc"),
        "TGP_IMAGE": factory.stem,
        "TGP_PATH": "/nowhere:/usr/bin",
    }
    (folder / "systemctl").write_text("#!/bin/sh\n")
    (folder / "systemctl").chmod(0o755)
    environment["TGP_PATH"] = f"{folder}:/usr/bin:/bin"
    done = subprocess.run(["sh", program], env=environment, user=65534, group=65534, check=False, capture_output=True)

    assert done.returncode == 1
    assert "this must run as root" in (folder / "console").read_text()
