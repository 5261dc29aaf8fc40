"""The benchmark data sets: every layout that goes around is understood, and every way of being wrong is named."""

import bz2
import os
import shutil
import sys
import tarfile
import types
from dataclasses import replace

import numpy as np
import pytest

from catalog_trees import SHARED, fill, lay_out, lay_out_isic, lay_out_lists, lay_out_real_isic
from unihssl.config import Settings
from unihssl.data import catalog
from unihssl.data.cache import Cache
from unihssl.data.catalog import check
from unihssl.data.domain import labeled_domain, unlabeled_domain
from unihssl.data.rendering import Rendering
from unihssl.data.store import fill_store
from unihssl.errors import UserError

OFFICE31, HOME, VISDA = (catalog.get(name) for name in ("office-31", "office-home", "visda-2017"))
ISIC, PACS, CALTECH, DIGITS = (catalog.get(name) for name in ("isic-2019", "pacs", "office-caltech-10", "digits"))


def problems(dataset, root, *domains):
    results = check(dataset, root, [dataset.domain(d) for d in domains])
    return [problem for result in results for problem in result.problems]


class TestWhatIsKnown:
    def test_totals_are_those_published(self):
        totals = {name: [domain.total for domain in d.domains] for name, d in catalog.DATASETS.items()}
        assert totals == {
            "office-31": [2817, 498, 795],
            "office-home": [2427, 4365, 4439, 4357],
            "visda-2017": [152397, 55388],
            "isic-2019": [12413, 10015],
            "pacs": [1670, 2048, 2344, 3929],
            "office-caltech-10": [958, 1123, 157, 295],
            "aerial": [1050, 1050],
            "digits": [3000, 9298, 1797],
        }

    def test_classes(self):
        sizes = {name: len(set(d.classes)) for name, d in catalog.DATASETS.items()}
        assert list(sizes.values()) == [31, 65, 12, 8, 7, 10, 7, 10]
        for dataset in catalog.DATASETS.values():
            for domain in dataset.domains:
                assert set(domain.counts) == set(dataset.classes)

    def test_every_pair_of_the_paper_can_be_named(self):
        assert [len(d.pairs) for d in catalog.DATASETS.values()] == [6, 12, 1, 2, 0, 0, 0, 0]
        for dataset in catalog.DATASETS.values():
            for pair in dataset.all_pairs:
                labeled, unlabeled = dataset.pair(pair)
                assert (labeled.short, unlabeled.short) == tuple(pair.split("/"))

    @pytest.mark.parametrize(
        ("name", "pair", "domains"),
        [
            ("Office31", "amazon/W", ("amazon", "webcam")),
            ("office_home", "A/R", ("art", "real_world")),  # as the paper's table has it
            ("Office-Home", "Ar/Real World", ("art", "real_world")),
            ("visda", "synthetic/R", ("synthetic", "real")),
            ("ISIC", "ham/bcn", ("HAM", "BCN")),
            ("pacs", "photo/art_painting", ("photo", "art_painting")),
            ("digits", "mnist/usps", ("mnist", "usps")),
        ],
    )
    def test_names_in_many_spellings(self, name, pair, domains):
        assert tuple(d.name for d in catalog.get(name).pair(pair)) == domains

    def test_unknown_names_get_the_nearest(self):
        with pytest.raises(UserError, match="unknown data set 'ofice-31': did you mean office-31"):
            catalog.get("ofice-31")
        with pytest.raises(UserError, match=r"no domain 'amazn'; did you mean amazon\? its domains are amazon \(A\), "):
            OFFICE31.pair("amazn/W")
        with pytest.raises(UserError, match="'A-W' is not a pair: expected labeled/unlabeled, such as W/A"):
            OFFICE31.pair("A-W")
        with pytest.raises(UserError, match="two different domains"):
            OFFICE31.pair("A/amazon")


class TestOffice31:
    @pytest.fixture(scope="class")
    def official(self, tmp_path_factory):
        return lay_out(tmp_path_factory.mktemp("data") / "office31", OFFICE31, images="images")

    @pytest.fixture
    def own(self, tmp_path, official):
        return shutil.copytree(official, tmp_path / "office31", copy_function=os.link)

    def test_official_layout_from_the_folder_and_from_its_parent(self, official):
        assert problems(OFFICE31, official) == []
        assert problems(OFFICE31, official.parent) == []

    def test_other_layouts_hold_the_same_samples_in_the_same_order(self, official, tmp_path):
        expected = catalog.load("office-31", "A/W", official)
        for layout in (
            lay_out(tmp_path / "bare", OFFICE31),
            lay_out(tmp_path / "wrapped" / "office" / "domain_adaptation_images", OFFICE31).parents[1],
            lay_out(tmp_path / "upper", OFFICE31, images="images", rename=str.upper),
        ):
            assert problems(OFFICE31, layout) == []
            for one, other in zip(expected, catalog.load("office-31", "A/W", layout), strict=True):
                assert (one.names, one.labels) == (other.names, other.labels)

    def test_list_files(self, tmp_path):
        assert problems(OFFICE31, lay_out_lists(tmp_path, OFFICE31)) == []
        (tmp_path / "pool/webcam/c17/frame_00001.jpg").unlink()
        assert problems(OFFICE31, tmp_path) == [
            "webcam: 1 image of webcam.txt is not there (pool/webcam/c17/frame_00001.jpg)",
            "webcam/mug: expected 27 images, found 26",
        ]

    def test_list_files_that_contradict_themselves(self, tmp_path):
        listing = lay_out_lists(tmp_path, OFFICE31) / "image_list/dslr.txt"
        listing.write_text("dslr/images/mug/1.jpg 17\ndslr/images/pen/1.jpg 17\n")
        with pytest.raises(UserError, match=r"dslr.txt: line 2: label 17 stands for mug and for pen"):
            check(OFFICE31, tmp_path)
        listing.write_text("dslr/images/mug/1.jpg\n")

    @pytest.mark.parametrize("line", ["dslr/images/mug/1.jpg", "17", "dslr/1.jpg 31", "dslr/1.jpg mugs"])
    def test_lines_of_list_files_that_say_nothing(self, tmp_path, line):
        (tmp_path / "dslr.txt").write_text(f"dslr/images/mug/1.jpg 17\n{line}\n")
        expected = "expected 'images/back_pack/1.jpg 0' .* or 'images/1.jpg back_pack' .* or 'images/1.jpg 0' "
        with pytest.raises(UserError, match=f"dslr.txt: line 2: {expected}.*; found: {line}$"):
            check(OFFICE31, tmp_path)
        (tmp_path / "Art.txt").write_text(f"{line}\n")
        with pytest.raises(UserError, match=r"or 'images/1.jpg Alarm_Clock' \(path and class\); found:"):
            check(HOME, tmp_path)

    def test_list_files_of_nothing(self, tmp_path):
        (tmp_path / "dslr").mkdir()
        (tmp_path / "dslr.txt").write_text("dslr/mug/1.jpg 17\ndslr/pen/1.jpg 19\n")
        printed = "dslr: 2 images of dslr.txt are not there (dslr/mug/1.jpg, dslr/pen/1.jpg)"
        assert problems(OFFICE31, tmp_path, "D") == [printed]

    def test_list_files_with_names_of_classes(self, tmp_path):
        fill(tmp_path / "pool of all", 3)
        lines = ["pool of all/frame_00001.jpg mug", "pool of all/frame_00002.jpg\tback_pack", "\n"]
        (tmp_path / "dslr.txt").write_text("\n".join(lines))
        (result,) = check(OFFICE31, tmp_path, [OFFICE31.domain("D")])
        assert result.found.labels == ["back_pack", "mug"]
        assert [path.name for path in result.found.items] == ["frame_00002.jpg", "frame_00001.jpg"]

    def test_missing_images(self, own):
        for number in (1, 5, 9):
            (own / f"webcam/images/mug/frame_{number:05d}.jpg").unlink()
        assert problems(OFFICE31, own) == ["webcam/mug: expected 27 images, found 24"]
        assert problems(OFFICE31, own, "A", "dslr") == []

    def test_too_few_here_and_too_many_there(self, own):
        (own / "webcam/images/mug/frame_00001.jpg").rename(own / "webcam/images/pen/one_more.jpg")
        assert problems(OFFICE31, own) == [
            "webcam/mug: expected 27 images, found 26",
            "webcam/pen: expected 32 images, found 33",
        ]

    def test_missing_class_and_extra_class(self, own):
        (own / "dslr/images/mug").rename(own / "dslr/images/mugs")
        assert problems(OFFICE31, own) == [
            "dslr/mug: expected 8 images, found none",
            "dslr/mugs: not a class of office-31 (8 images); is it mug?",
        ]

    def test_extra_images(self, own):
        fill(own / "dslr/images/pen/more", 2)
        shutil.copy(own / "dslr/images/pen/frame_00001.jpg", own / "dslr/images/loose.jpg")
        assert problems(OFFICE31, own) == [
            "dslr: 1 image lies outside any class folder (loose.jpg)",
            "dslr/pen: expected 10 images, found 12",
        ]

    def test_missing_domain(self, own):
        shutil.rmtree(own / "amazon")
        assert problems(OFFICE31, own) == ["amazon: not found: no folder amazon, and no list file"]

    def test_wrong_or_missing_folder(self, own, tmp_path):
        for root, missing in ((own / "amazon", 2), (own / "amazon" / "images", 3), (tmp_path / "nowhere", 3)):
            assert [p.split(":")[1] for p in problems(OFFICE31, root)] == [" not found"] * missing
        with pytest.raises(UserError, match=r"office-31: amazon: not found.* its official source is https://"):
            catalog.load("office-31", "A/W", tmp_path / "nowhere")

    def test_what_differs_is_a_note_where_it_is_used(self, own):
        (own / "webcam/images/mug/frame_00001.jpg").unlink()
        labeled, unlabeled = catalog.load("office-31", "A/W", own)
        source = labeled_domain(labeled, Settings())
        target = unlabeled_domain(unlabeled, source.classes, Settings())
        assert (len(source), len(target), source.notes) == (2817, 794, ())
        assert "not as published" in target.notes[0] and "webcam/mug: expected 27 images, found 26" in target.notes[0]

    def test_a_run_finds_its_source_again_by_name(self, official):
        labeled, _ = catalog.load("office-31", "D/W", official)
        again = labeled_domain(labeled.name, Settings())
        assert again.names == tuple(labeled.names)
        assert again.classes == OFFICE31.classes

    def test_it_is_not_taken_for_its_ten_class_cousin(self, official, tmp_path):
        """Both have a folder `amazon`; in a folder of many data sets the one with the right classes is taken."""
        lay_out(tmp_path / "a_cousin", CALTECH)
        shutil.copytree(official, tmp_path / "office31", copy_function=os.link)
        assert problems(OFFICE31, tmp_path) == []
        assert problems(CALTECH, tmp_path) == []

    def test_its_ten_class_cousin_alone_is_refused(self, tmp_path):
        lay_out(tmp_path / "office_caltech10", CALTECH)
        printed = (
            f"amazon: only 9 of 31 classes have images in {tmp_path}/office_caltech10/amazon, "
            "which may be another data set, or a part of this"
        )
        result = check(OFFICE31, tmp_path)[0]
        assert result.problems[0] == printed and result.unusable
        with pytest.raises(UserError, match=rf"office-31: {printed} under {tmp_path}; its official source"):
            catalog.load("office-31", "A/W", tmp_path)
        assert [len(domain) for domain in catalog.load("office-caltech-10", "A/W", tmp_path)] == [958, 295]

    def test_it_is_found_beneath_its_cousin(self, own, tmp_path):
        """Even if that is nearer to the root, or if it is still an archive."""
        lay_out(tmp_path / "data", CALTECH)
        shutil.move(own, tmp_path / "data" / "here" / "office31")
        assert problems(OFFICE31, tmp_path / "data") == []
        shutil.make_archive(str(tmp_path / "data/here/office31"), "tar", tmp_path / "data/here/office31")
        shutil.rmtree(tmp_path / "data/here/office31")
        assert problems(OFFICE31, tmp_path / "data") == []

    def test_half_of_the_classes(self, own):
        for name in OFFICE31.classes[:15]:
            shutil.rmtree(own / "webcam/images" / name)
        assert "not as published" in catalog.load("office-31", "A/W", own)[1].notes[0]
        shutil.rmtree(own / "webcam/images" / OFFICE31.classes[15])
        printed = "webcam: only 15 of 31 classes have images in .*/webcam/images, which may be another data set"
        with pytest.raises(UserError, match=printed):
            catalog.load("office-31", "A/W", own)


class TestPrepare:
    @pytest.fixture
    def small(self, tmp_path):
        counts = dict.fromkeys(OFFICE31.classes, 2)
        return lay_out(
            tmp_path / "data",
            replace(OFFICE31, domains=tuple(replace(d, counts=counts) for d in OFFICE31.domains)),
        )

    def test_training_finds_what_was_prepared(self, small, tmp_path):
        (result,) = check(OFFICE31, small, [OFFICE31.domain("W")])
        calls = []
        for new in (True, False):
            done = Cache(tmp_path / "cache").decoded(
                result.found.items, Rendering((12, 12)), lambda *numbers: calls.append(numbers)
            )
            assert (len(done.pixels), done.found, done.unreadable) == (62, not new, {})
        assert calls[-1] == (62, 62)
        domain = labeled_domain(catalog.load("office-31", "W/A", small)[0], Settings())
        _, store = fill_store(domain, (12, 12), lambda *_: pytest.fail("decoded again"), tmp_path / "cache")
        assert store.on_disk and len(store) == 62

    def test_unreadable_images_are_named(self, small, tmp_path):
        path = small / "webcam/mug/frame_00001.jpg"
        path.unlink()
        path.write_text("not an image")
        (result,) = check(OFFICE31, small, [OFFICE31.domain("W")])
        done = Cache(tmp_path / "cache").decoded(result.found.items, Rendering((12, 12)))
        named = {result.found.names[row]: why for row, why in done.unreadable.items()}
        assert (len(done.pixels), named) == (61, {"mug/frame_00001.jpg": "not an image"})

    def test_stopped_it_starts_again(self, small, tmp_path):
        (result,) = check(OFFICE31, small, [OFFICE31.domain("W")])

        def stop(done, total):
            if done == 20:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            Cache(tmp_path / "cache").decoded(result.found.items, Rendering((12, 12)), stop)
        assert list((tmp_path / "cache" / "building").iterdir()) == []
        assert len(Cache(tmp_path / "cache").decoded(result.found.items, Rendering((12, 12))).pixels) == 62


class TestOfficeHome:
    @pytest.mark.parametrize("real", ["Real World", "RealWorld", "Real_World", "real world"])
    def test_every_spelling_of_real_world(self, tmp_path, real):
        def rename(name):
            return {"Real World": real, "Alarm_Clock": "Alarm_clock"}.get(name, name)

        lay_out(tmp_path / "OfficeHomeDataset_10072016", HOME, rename=rename)
        assert problems(HOME, tmp_path) == []

    def test_counts_by_class(self, tmp_path):
        ranges = [(min(d.counts.values()), max(d.counts.values())) for d in HOME.domains]
        assert ranges == [(15, 99), (39, 99), (38, 99), (23, 99)]  # as published
        lay_out(tmp_path, HOME)
        shutil.rmtree(tmp_path / "Art" / "Bed")
        tv, toys = (tmp_path / "Real World" / name for name in ("TV", "Toys"))
        (tv / "frame_00001.jpg").rename(toys / "one_more.jpg")
        assert problems(HOME, tmp_path) == [
            "art/Bed: expected 40 images, found none",
            "real_world/TV: expected 53 images, found 52",
            "real_world/Toys: expected 67 images, found 68",
        ]

    def test_lists_in_their_own_order_written_for_another_folder_name(self, tmp_path):
        """`Real_World.txt` numbers classes as it likes and says Real_World where the folder has a space."""
        fill(tmp_path / "Real World" / "images of all", 2)
        lines = ["Real_World/images of all/Marker/1.jpg 0", "Real_World/images of all/Drill/1.jpg 1"]
        for name in ("Marker", "Drill"):
            (tmp_path / "Real World" / "images of all" / name).mkdir()
            shutil.copy(
                tmp_path / "Real World/images of all/frame_00001.jpg",
                tmp_path / f"Real World/images of all/{name}/1.jpg",
            )
        (tmp_path / "image_list").mkdir()
        (tmp_path / "image_list/Real_World.txt").write_text("\n".join(lines))
        (result,) = check(HOME, tmp_path, [HOME.domain("Rw")])
        assert result.found.labels == ["Drill", "Marker"]
        assert all(path.is_file() for path in result.found.items)


def test_visda_with_all_its_files(tmp_path_factory):
    root = tmp_path_factory.mktemp("visda")
    try:
        lay_out(root, VISDA, suffix=".png")  # the class `train` beside the folder `train` must not confuse it
        for folder in ("train", "validation"):
            (root / folder / "image_list.txt").write_text("unused")
        assert problems(VISDA, root) == []
        (root / "validation" / "train" / "frame_00001.png").unlink()
        assert problems(VISDA, root, "real") == ["real/train: expected 4,236 images, found 4,235"]
    finally:
        shutil.rmtree(root)  # 200,000 names are too many to keep for later


class TestIsic:
    @pytest.mark.skipif(not (SHARED / "isic2019").is_dir(), reason=f"{SHARED}/isic2019 is not here (UNIHSSL_SHARED)")
    def test_real_tables(self, tmp_path):
        lay_out_real_isic(tmp_path)
        assert len(list((tmp_path / "ISIC_2019_Training_Input").glob("ISIC_*.jpg"))) == 25331
        assert problems(ISIC, tmp_path) == []
        assert problems(ISIC, tmp_path.parent / tmp_path.name) == []
        labeled, unlabeled = catalog.load("isic-2019", "BCN/HAM", tmp_path)
        assert [len(set(d.columns["lesion_id"])) for d in (labeled, unlabeled)] == [3576, 7470]
        assert "11925 of 12413 images share their lesion_id" in labeled_domain(labeled, Settings()).notes[0]

    ROWS = (
        ("ISIC_1", "MEL", "BCN_1"),
        ("ISIC_2", "MEL", "BCN_1"),
        ("ISIC_3", "NV", "BCN_2"),
        ("ISIC_4", "NV", "HAM_7"),
        *((f"ISIC_7_{source}_{c}", c, f"{source}_{c}") for c in ISIC.classes[2:] for source in ("BCN", "HAM")),
        ("ISIC_5", "MEL", "MSK4_1"),
        ("ISIC_6_downsampled", "NV", ""),
    )

    @pytest.fixture
    def small(self, tmp_path):
        return lay_out_isic(tmp_path, list(self.ROWS), ISIC.classes)

    def test_lesions_are_groups_on_demand(self, small):
        labeled, _ = catalog.load("isic-2019", "BCN/HAM", small)
        assert (labeled.names[:3], labeled.labels[:3]) == (["ISIC_1", "ISIC_2", "ISIC_3"], ["MEL", "MEL", "NV"])
        assert len(labeled) == 9
        domain = labeled_domain(labeled, Settings(group_by="lesion_id"))
        assert domain.groups.tolist()[:3] == ["BCN_1", "BCN_1", "BCN_2"]
        assert not any("group_by" in note for note in domain.notes)
        domain = labeled_domain(labeled, Settings())
        assert domain.groups is None
        assert "2 of 9 images share their lesion_id with another" in domain.notes[-1]
        assert (
            "Set group_by to lesion_id to keep them on one side" in labeled_domain(labeled.name, Settings()).notes[-1]
        )
        with pytest.raises(UserError, match="group_by='patient' needs that column; its columns are lesion_id"):
            labeled_domain(labeled, Settings(group_by="patient"))

    def test_images_that_are_gone(self, small):
        (small / "ISIC_2019_Training_Input/ISIC_2.jpg").unlink()
        printed = problems(ISIC, small, "BCN")
        assert printed[0] == "BCN: 1 image of ISIC_2019_Training_GroundTruth.csv is not there (ISIC_2)"
        assert printed[1] == "BCN/MEL: expected 2,857 images, found 1"

    def test_tables_that_are_gone_or_others(self, small):
        table = small / "ISIC_2019_Training_Metadata.csv"
        table.unlink()
        assert problems(ISIC, small, "HAM") == [f"HAM: ISIC_2019_Training_Metadata.csv not found under {small}"]
        table.write_text("image,sex\nISIC_1,male\n")
        with pytest.raises(UserError, match=r"Metadata.csv: no column 'lesion_id'; its columns are image, sex"):
            check(ISIC, small)

    def test_a_cell_that_is_no_number_is_no_class(self, small):
        table = small / "ISIC_2019_Training_GroundTruth.csv"
        table.write_text(table.read_text().replace("ISIC_3,0.0,1.0", "ISIC_3,0.0,yes"))
        assert "BCN/NV: expected 4,206 images, found none" in problems(ISIC, small, "BCN")


class TestDigits:
    @staticmethod
    def usps():
        """As many of each digit as USPS has, each image bright in the column of its digit."""
        labels = np.repeat(np.arange(10), list(DIGITS.domain("usps").counts.values()))
        images = np.zeros((len(labels), 16, 16))
        images[np.arange(len(labels)), :, labels] = 1
        return images, labels

    def expect(self, root):
        assert problems(DIGITS, root) == []
        labeled, unlabeled = catalog.load("digits", "mnist/usps", root)
        np.testing.assert_array_equal(unlabeled.items, np.rint(255 * self.usps()[0]))
        assert unlabeled.items.dtype == labeled.items.dtype == np.uint8
        assert labeled.items.shape[1:] == unlabeled.items.shape[1:] == (16, 16)
        source = labeled_domain(labeled, Settings())
        assert unlabeled_domain(unlabeled, source.classes, Settings()).classes == tuple(range(10))

    @pytest.mark.parametrize("low", [0, -1])
    def test_npz(self, tmp_path, low):
        images, labels = self.usps()
        np.savez(tmp_path / "usps.npz", x=(images * (1 - low) + low).reshape(-1, 256), y=labels)
        self.expect(tmp_path)

    def test_text_of_libsvm(self, tmp_path):
        images, labels = self.usps()
        line_of = []
        for digit in range(10):
            values = 2 * images[np.argmax(labels == digit)].ravel() - 1
            line_of.append(f"{digit + 1} " + " ".join(f"{i}:{v:g}" for i, v in enumerate(values, start=1)))
        lines = [line_of[label] for label in labels]
        for name, part in (("usps.bz2", lines[:7291]), ("usps.t.bz2", lines[7291:])):
            (tmp_path / name).write_bytes(bz2.compress("\n".join(part).encode(), 1))
        self.expect(tmp_path)
        (tmp_path / "usps.t.bz2").write_bytes((tmp_path / "usps.t.bz2").read_bytes()[:-99])
        (printed,) = problems(DIGITS, tmp_path)
        assert printed.startswith(f"usps: {tmp_path}/usps.bz2: cannot be read as USPS digits (")

    def test_h5(self, tmp_path, monkeypatch):
        (tmp_path / "usps.h5").write_bytes(b"")
        monkeypatch.setitem(sys.modules, "h5py", None)
        mnist, usps, uci = check(DIGITS, tmp_path)
        assert (len(mnist.found.items), mnist.problems, len(uci.found.items), uci.problems) == (3000, (), 1797, ())
        (printed,) = usps.problems
        assert "usps.h5: reading it needs h5py" in printed and "pip install 'unihssl[hdf5]'" in printed
        with pytest.raises(UserError, match=r"digits: usps: .*usps.h5: reading it needs h5py"):
            catalog.load("digits", "mnist/usps", tmp_path)
        assert len(catalog.load("digits", "mnist/uci", tmp_path)[1]) == 1797
        images, labels = self.usps()
        parts = {
            name: {"data": images.reshape(-1, 256)[rows], "target": labels[rows]}
            for name, rows in (("train", slice(7291)), ("test", slice(7291, None)))
        }
        fake = types.ModuleType("h5py")
        fake.File = lambda path: _Entered(parts)
        monkeypatch.setitem(sys.modules, "h5py", fake)
        self.expect(tmp_path)

    @pytest.mark.skipif(not (SHARED / "usps.h5").is_file(), reason=f"{SHARED}/usps.h5 is not here (UNIHSSL_SHARED)")
    def test_real_h5(self):
        pytest.importorskip("h5py")
        assert problems(DIGITS, SHARED, "usps") == []

    def test_embedded_ones_need_no_folder(self, tmp_path):
        assert problems(DIGITS, tmp_path / "nowhere", "mnist", "uci") == []
        assert problems(DIGITS, tmp_path, "usps") == ["usps: not found"]


class _Entered(dict):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


@pytest.mark.skipif(not (SHARED / "pacs_photo.tar").is_file(), reason=f"{SHARED} has no tars (UNIHSSL_SHARED)")
class TestRealArchives:
    def test_office_caltech(self, tmp_path):
        (tmp_path / "office_caltech10.tar").symlink_to(SHARED / "office_caltech10.tar")
        assert problems(CALTECH, tmp_path) == []
        assert problems(CALTECH, tmp_path / "office_caltech10.tar") == []

    def test_pacs_but_for_its_sketches(self, tmp_path):
        for archive in SHARED.glob("pacs_*.tar"):
            (tmp_path / archive.name).symlink_to(archive)
        assert problems(PACS, tmp_path, "photo", "art_painting", "cartoon") == []
        assert problems(PACS, tmp_path) == ["sketch: not found: no folder sketch, and no list file"]


class TestAFolderInTheWay:
    """A folder of the right name with nothing in it: to fetch the data set once more would not help."""

    @pytest.fixture
    def photos(self, tmp_path):
        photo = replace(PACS, domains=PACS.domains[:1])
        with tarfile.open(tmp_path / "pacs_photo.tar", "w") as archive:
            for path in sorted(lay_out(tmp_path / "out", photo).rglob("*.jpg")):
                archive.addfile(tarfile.TarInfo(path.relative_to(tmp_path / "out").as_posix()))
        shutil.rmtree(tmp_path / "out")
        return tmp_path

    def test_of_an_archive(self, photos):
        (photos / "photo").mkdir()
        with pytest.raises(UserError, match=rf"pacs_photo.tar: not unpacked: the folder {photos}/photo is in the way"):
            check(PACS, photos)
        (photos / "photo").rmdir()
        assert problems(PACS, photos, "photo") == []
        assert problems(PACS, photos, "sketch") == ["sketch: not found: no folder sketch, and no list file"]

    def test_that_is_incomplete(self, photos):
        """As half of an archive unpacked by other means would be."""
        for name in ("person", "house", "horse"):
            fill(photos / "photo" / name, 20)
        with pytest.raises(UserError, match=r"has 60 of its 1,670 files; move or delete that folder"):
            check(PACS, photos, [PACS.domain("photo")])
        fill(photos / "photo" / "dog", 20)
        assert problems(PACS, photos, "photo")[0] == "photo/dog: expected 189 images, found 20"
        (photos / "pacs_photo.tar").rename(photos / "own.tar")
        with pytest.raises(UserError, match=r"own.tar: not unpacked: .* has 80 of its 1,670 files"):
            check(PACS, photos / "own.tar")
        shutil.rmtree(photos / "photo")
        assert problems(PACS, photos / "own.tar", "photo") == []

    def test_of_isic(self, tmp_path):
        lay_out_isic(tmp_path, list(TestIsic.ROWS), ISIC.classes)
        images = tmp_path / "ISIC_2019_Training_Input"
        shutil.make_archive(str(images), "zip", tmp_path, images.name)
        shutil.rmtree(images)
        images.mkdir()
        with pytest.raises(UserError, match=r"ISIC_2019_Training_Input.zip: not unpacked: .* is in the way"):
            check(ISIC, tmp_path)

    def test_without_an_archive(self, tmp_path):
        (tmp_path / "photo" / "holidays").mkdir(parents=True)
        assert problems(PACS, tmp_path, "photo") == [
            f"photo: not found: {tmp_path}/photo has no class folders such as dog, and no list file"
        ]


def test_reduced_counts_can_be_checked_too(tmp_path):
    """A description is data: other counts make another data set of the same layout."""
    one_each = tuple(replace(d, counts=dict.fromkeys(OFFICE31.classes, 1)) for d in OFFICE31.domains)
    reduced = replace(OFFICE31, domains=one_each)
    assert problems(reduced, lay_out(tmp_path, reduced)) == []
    assert len(problems(OFFICE31, tmp_path)) == 93
