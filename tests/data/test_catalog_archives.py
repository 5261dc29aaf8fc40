"""Archives are unpacked whole or not at all, and never outside their folder."""

import io
import stat
import tarfile
import threading
import zipfile
from dataclasses import replace

import pytest
from filelock import FileLock

from catalog_trees import lay_out, tiny
from unihssl.data import catalog
from unihssl.data.catalog import archives, check
from unihssl.data.catalog.archives import unpack
from unihssl.errors import UserError

OFFICE31, HOME = catalog.get("office-31"), catalog.get("office-home")
PACS, CALTECH = catalog.get("pacs"), catalog.get("office-caltech-10")
GOOD = {"art/cat/1.jpg": tiny(), "art/dog/1.jpg": tiny(), "photo/cat/1.jpg": tiny()}


def make_zip(path, content, kind=0):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (kind if name.endswith("evil") else stat.S_IFREG) << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED)
    return path


def make_tar(path, content, **evil):
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        if evil:
            info = tarfile.TarInfo("art/evil")
            for name, value in evil.items():
                setattr(info, name, value)
            archive.addfile(info)
    return path


def tree(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


@pytest.mark.parametrize(("make", "name"), [(make_tar, "x.tar"), (make_tar, "x.tar.gz"), (make_zip, "x.zip")])
class TestEveryKind:
    def test_unpacked_into_a_folder_of_its_name(self, tmp_path, make, name):
        assert unpack(make(tmp_path / name, GOOD)) == tmp_path / "x"
        assert tree(tmp_path) == sorted([name, *(f"x/{n}" for n in GOOD)])
        assert (tmp_path / "x/art/cat/1.jpg").read_bytes() == tiny()

    def test_one_folder_inside_keeps_its_name(self, tmp_path, make, name):
        assert unpack(make(tmp_path / name, {f"inner/{n}": data for n, data in GOOD.items()})) == tmp_path / "inner"
        assert tree(tmp_path / "inner") == sorted(GOOD)

    def test_what_is_there_is_not_written_over(self, tmp_path, make, name):
        (tmp_path / "x").mkdir()
        (tmp_path / "x" / "own").write_text("own")
        with pytest.raises(UserError, match=f"the folder {tmp_path}/x is in the way and has 0 of its 3 files; move or"):
            unpack(make(tmp_path / name, GOOD))
        assert tree(tmp_path / "x") == ["own"]

    def test_litter_is_left_out(self, tmp_path, make, name):
        unpack(make(tmp_path / name, GOOD | {"__MACOSX/art/._1.jpg": b"", "art/.DS_Store": b"", "art/._2.jpg": b""}))
        assert tree(tmp_path / "x") == sorted(GOOD)

    @pytest.mark.parametrize(
        ("evil", "why"),
        [
            ("../evil", "'../evil' leads out of the folder"),
            ("art/../../evil", "leads out of the folder"),
            ("/tmp/evil", "'/tmp/evil' leads out of the folder"),
            ("C:\\evil", "leads out of the folder"),
            ("..\\evil", "leads out of the folder"),
        ],
    )
    def test_paths_that_lead_out(self, tmp_path, make, name, evil, why):
        (tmp_path / "in").mkdir()
        with pytest.raises(UserError) as error:
            unpack(make(tmp_path / "in" / name, GOOD | {evil: b"evil"}))
        assert why in str(error.value) and "not unpacked" in str(error.value)
        assert tree(tmp_path) == [f"in/{name}"]

    def test_cut_short(self, tmp_path, make, name):
        path = make(tmp_path / name, {f"art/{n}.jpg": bytes(range(256)) * 20 for n in range(20)})
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        with pytest.raises(UserError, match=f"{name}: damaged or cut short; delete it and download it again"):
            unpack(path)
        assert tree(tmp_path) == [name]

    def test_cut_short_anywhere(self, tmp_path, make, name):
        """Python's tarfile takes a tar cut in or before an entry's header for a whole one."""
        whole = make(tmp_path / name, GOOD).read_bytes()
        end = len(whole.rstrip(b"\0")) if name == "x.tar" else len(whole)  # the padding of a tar may be gone
        for length in {*range(1, end, 97), end // 512 * 512, end - 1}:
            (tmp_path / name).write_bytes(whole[:length])
            with pytest.raises(UserError, match="damaged or cut short"):
                unpack(tmp_path / name)
        assert tree(tmp_path) == [name]

    def test_interrupted(self, tmp_path, make, name):
        def interrupt(done, total):
            assert (tmp_path / f".{name}.unpacking").is_dir()
            if done == 2:
                raise KeyboardInterrupt

        path = make(tmp_path / name, GOOD)
        with pytest.raises(KeyboardInterrupt):
            unpack(path, interrupt)
        assert tree(tmp_path) == [name]
        (tmp_path / f".{name}.unpacking" / "art").mkdir(parents=True)  # what a kill leaves
        (tmp_path / f".{name}.unpacking" / "art" / "half").write_text("ha")
        assert tree(unpack(path)) == sorted(GOOD)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["x", name]

    def test_a_bomb(self, tmp_path, make, name, monkeypatch):
        monkeypatch.setattr(archives, "UNSUSPICIOUS_BYTES", 10_000)
        monkeypatch.setattr(archives, "MAX_GROWTH", 0.5)
        with pytest.raises(UserError, match=r"not unpacked: .* bytes would become 1 files of 1,000,000 bytes"):
            unpack(make(tmp_path / name, {"art/1.jpg": bytes(1_000_000)}))

    def test_nothing_inside(self, tmp_path, make, name):
        with pytest.raises(UserError, match=f"{name}: the archive holds no files"):
            unpack(make(tmp_path / name, {}))


@pytest.mark.parametrize("left", [512, 1024])
def test_a_tar_without_padding(tmp_path, left):
    """Some writers end with one block of zeros, or do not fill up the record."""
    path = make_tar(tmp_path / "x.tar", GOOD)
    whole = path.read_bytes()
    end = -(-len(whole.rstrip(b"\0")) // 512) * 512
    path.write_bytes(whole[: end + left])
    assert tree(unpack(path)) == sorted(GOOD)


@pytest.mark.parametrize(("left", "why"), [(0, "empty"), (1, "truncated")])
def test_a_tar_without_a_block_of_zeros_may_be_cut(tmp_path, left, why):
    path = make_tar(tmp_path / "x.tar", GOOD)
    whole = path.read_bytes()
    end = -(-len(whole.rstrip(b"\0")) // 512) * 512
    path.write_bytes(whole[: end + left])
    with pytest.raises(UserError, match=rf"damaged or cut short.*\(its end marker is missing: {why} header\)"):
        unpack(path)


def test_a_damaged_header_is_no_end(tmp_path):
    path = make_tar(tmp_path / "x.tar", GOOD)
    content = bytearray(path.read_bytes())
    content[content.index(b"art/dog")] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"damaged or cut short.*bad checksum"):
        unpack(path)
    assert tree(tmp_path) == ["x.tar"]


@pytest.mark.parametrize(
    ("evil", "why"),
    [
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "'art/evil' is a link or a device"),
        ({"type": tarfile.SYMTYPE, "linkname": "../../out"}, "is a link"),
        ({"type": tarfile.LNKTYPE, "linkname": "/etc/passwd"}, "is a link"),
        ({"type": tarfile.CHRTYPE}, "'art/evil' is a link or a device"),
        ({"type": tarfile.FIFOTYPE}, "is a link or a device"),
    ],
)
def test_links_and_devices_in_a_tar(tmp_path, evil, why):
    with pytest.raises(UserError, match=why):
        unpack(make_tar(tmp_path / "x.tar", GOOD, **evil))
    assert tree(tmp_path) == ["x.tar"]


def test_links_in_a_zip(tmp_path):
    with pytest.raises(UserError, match="'art/evil' is a link or a device"):
        unpack(make_zip(tmp_path / "x.zip", GOOD | {"art/evil": b"/etc/passwd"}, kind=stat.S_IFLNK))


def test_one_process_at_a_time(tmp_path):
    path = make_zip(tmp_path / "x.zip", GOOD)
    with FileLock(tmp_path / ".x.zip.lock"):
        other = threading.Thread(target=unpack, args=(path,))
        other.start()
        other.join(0.3)
        assert other.is_alive() and not (tmp_path / "x").exists()
    other.join(30)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x", "x.zip"]


def test_a_full_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 5})())
    with pytest.raises(UserError, match=r"unpacking needs .* bytes, and 5 are free"):
        unpack(make_zip(tmp_path / "x.zip", GOOD))


def test_an_archive_that_only_has_the_name(tmp_path):
    """`train.tar` is what VisDA's is called, and many another."""
    visda = catalog.get("visda")
    make_tar(tmp_path / "train.tar", {"train/cat/1.jpg": b"", "train/dog/1.jpg": b""})
    assert [result.found for result in check(visda, tmp_path)] == [None, None]
    assert tree(tmp_path) == ["train.tar"]
    with pytest.raises(UserError, match=r"train.tar: not unpacked, as it holds nothing named like VisDA-2017"):
        check(visda, tmp_path / "train.tar")


def test_neither_folder_nor_archive(tmp_path):
    (tmp_path / "notes.txt").write_text("no archive")
    with pytest.raises(UserError, match=r"notes.txt: is neither a folder nor an archive"):
        check(OFFICE31, tmp_path / "notes.txt")
    (tmp_path / "office31.tar").write_text("no archive")
    with pytest.raises(UserError, match=r"office31.tar: damaged or cut short"):
        check(OFFICE31, tmp_path)


class TestAnArchiveAsRoot:
    """What is asked for is what is looked into: nothing beside it counts."""

    @pytest.fixture
    def data(self, tmp_path):
        """Office-Caltech-10 as folders, and beside them photographs of PACS as an archive."""
        lay_out(tmp_path, CALTECH)
        photos = {f"photo/{name}/{i}.jpg": b"" for name, n in PACS.domain("P").counts.items() for i in range(n)}
        make_tar(tmp_path / "pacs_photo.tar", photos)
        return tmp_path

    def test_of_another_data_set(self, data):
        assert not any(result.problems for result in check(CALTECH, data))
        with pytest.raises(UserError, match=r"pacs_photo.tar: not unpacked, as it holds nothing named like Office-Cal"):
            check(CALTECH, data / "pacs_photo.tar")
        assert not (data / "photo").exists()

    def test_of_some_of_the_domains(self, data):
        lay_out(data, replace(PACS, domains=PACS.domains[1:]))
        assert not any(result.problems for result in check(PACS, data))
        photo, *others = check(PACS, data / "pacs_photo.tar")
        assert photo.problems == () and photo.found.name == str(data / "photo")
        assert [other.found for other in others] == [None] * 3
        with pytest.raises(
            UserError, match=r"not found.* in .*pacs_photo.tar \(beside it nothing was looked at\); its official"
        ):
            catalog.load("pacs", "P/A", data / "pacs_photo.tar")


@pytest.mark.parametrize(
    ("dataset", "name", "wrap", "images"),
    [
        (OFFICE31, "domain_adaptation_images.tar.gz", "", "images"),
        (HOME, "OfficeHomeDataset_10072016.zip", "OfficeHomeDataset_10072016", ""),
    ],
    ids=["office-31", "office-home"],
)
def test_data_sets_as_downloaded(tmp_path, dataset, name, wrap, images):
    layout = lay_out(tmp_path / "layout", dataset, images)
    content = {f"{wrap}/{n}".lstrip("/"): (layout / n).read_bytes() for n in tree(layout)}
    (tmp_path / "data" / "here").mkdir(parents=True)
    (make_zip if name.endswith("zip") else make_tar)(tmp_path / "data" / "here" / name, content)
    for root in (tmp_path / "data", tmp_path / "data" / "here", tmp_path / "data" / "here" / name):
        assert not any(result.problems for result in check(dataset, root))
