"""Folders, CSV files and arrays: what is found in them, and what is printed when they are wrong."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from unihssl.config import Settings
from unihssl.data import domain
from unihssl.data.domain import labeled_domain, unlabeled_domain
from unihssl.data.images import find_images
from unihssl.data.source import Source, first_few
from unihssl.errors import UserError

DEFAULTS = Settings()
ABC = ("apple", "bowl", "cup")


def images(root, *names):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(path)
    return root


def write_csv(root, text, name="data.csv"):
    (root / name).write_text(text, encoding="utf-8")
    return root / name


def truth(domain):
    """Sample name -> class name (None where unknown)."""
    return {n: None if k < 0 else domain.classes[k] for n, k in zip(domain.names, domain.labels, strict=True)}


def says(*parts):
    """A pattern for messages that hold these parts in this order."""
    return "(?s)" + ".*".join(re.escape(str(part)) for part in parts)


@pytest.fixture
def class_folders(tmp_path):
    return images(tmp_path / "labeled", "cup/1.png", "apple/1.JPG", "apple/deep/er/2.tiff", "bowl/1.webp", "bowl/2.bmp")


class TestFolders:
    def test_class_folders(self, class_folders):
        domain = labeled_domain(str(class_folders), DEFAULTS)
        assert domain.classes == ABC
        assert truth(domain) == {
            "apple/1.JPG": "apple",
            "apple/deep/er/2.tiff": "apple",
            "bowl/1.webp": "bowl",
            "bowl/2.bmp": "bowl",
            "cup/1.png": "cup",
        }
        assert all(path.is_file() for path in domain.items)
        assert domain.known.all()

    def test_a_path_serves_as_well_as_a_string(self, class_folders):
        assert labeled_domain(class_folders, DEFAULTS).names == labeled_domain(str(class_folders), DEFAULTS).names

    def test_hidden_files_and_other_files_are_passed_over(self, class_folders):
        images(class_folders, ".hidden/1.png", "cup/.thumb.png", "__MACOSX/cup/1.png", "cup/.cache/3.png")
        (class_folders / "cup" / "notes.txt").write_text("not an image")
        (class_folders / "labels.csv").write_text("nor is this")
        (class_folders / "cup" / "png").write_text("no suffix")
        domain = labeled_domain(class_folders, DEFAULTS)
        assert domain.classes == ABC
        assert len(domain) == 5

    def test_images_come_sorted(self, tmp_path):
        images(tmp_path, "b/2.png", "b/10.png", "a/z.png", "a/a.png")
        assert [p.relative_to(tmp_path).as_posix() for p in find_images(tmp_path)] == [
            "a/a.png",
            "a/z.png",
            "b/10.png",
            "b/2.png",
        ]

    @pytest.mark.parametrize(
        ("names", "message"),
        [
            ((), ["no images found", ".jpg", ".png"]),
            (("cup/1.png", "cup/2.png"), ["one class only (cup)", "two or more"]),
            (("1.png", "a/1.png", "b/1.png"), ["1 images lie outside any class folder (1.png)", "<image>: move"]),
        ],
    )
    def test_bad_labeled_folders(self, tmp_path, names, message):
        with pytest.raises(UserError, match=says(tmp_path, *message)):
            labeled_domain(images(tmp_path, *names), DEFAULTS)

    def test_empty_class_folders_are_named(self, class_folders):
        (class_folders / "dish").mkdir()
        (class_folders / "ewer").mkdir()
        (class_folders / "ewer" / "notes.txt").write_text("not an image")
        with pytest.raises(UserError, match=says("no images in class folder dish, ewer")):
            labeled_domain(class_folders, DEFAULTS)

    @pytest.mark.parametrize(
        ("name", "message"),
        [("nowhere", "no such file or folder (the labeled data)"), ("image.png", "expected a folder, a .csv")],
    )
    def test_not_a_source(self, tmp_path, name, message):
        images(tmp_path, "image.png")
        with pytest.raises(UserError, match=says(tmp_path / name, message)):
            labeled_domain(str(tmp_path / name), DEFAULTS)

    def test_nothing_given(self):
        with pytest.raises(UserError, match=says("no unlabeled data given: pass unlabeled")):
            unlabeled_domain("", ABC, DEFAULTS)

    def test_classes_that_differ_only_in_case_are_noted(self, tmp_path):
        images(tmp_path, "cup/1.png", "Cup/1.png", "CUP/1.png", "bowl/1.png")
        (note,) = labeled_domain(tmp_path, DEFAULTS).notes
        assert "classes CUP, Cup, cup differ only in case" in note

    def test_a_source_of_ones_own_has_no_class_folders(self, tmp_path):
        names = [f"p{n}/{side}/1.png" for n in (1, 2) for side in ("left", "right")]
        images(tmp_path, *names)
        own = Source(str(tmp_path), [tmp_path / name for name in names], names, ["ben", "ben", "mal", "mal"])
        assert labeled_domain(own, DEFAULTS).notes == ()
        assert labeled_domain(replace(own, name="x" * 300), DEFAULTS).notes == ()
        with pytest.raises(UserError, match=r"two or more$"):
            labeled_domain(replace(own, labels=["ben"] * 4), DEFAULTS)

    def test_a_folder_above_the_class_folders_is_noted(self, tmp_path):
        names = [f"{part}/{name}/1.png" for part in ("test", "train") for name in ("cup", "bowl")]
        (note,) = labeled_domain(images(tmp_path / "both", *names), DEFAULTS).notes
        assert "test, train are taken for the classes, and each holds bowl, cup" in note
        with pytest.raises(UserError, match=r"two or more$"):
            labeled_domain(images(tmp_path / "loose", "data/1.png", "data/sub/1.png"), DEFAULTS)
        with pytest.raises(UserError, match=says("one class only (test)", "one/test holds folders bowl, cup")):
            labeled_domain(images(tmp_path / "one", *names[:2]), DEFAULTS)

    @pytest.mark.parametrize("names", [("cup/1.png", "bowl/1.png"), ("cup/a/1.png", "cup/b/1.png", "bowl/a/1.png")])
    def test_other_folders_are_not_noted(self, tmp_path, names):
        assert labeled_domain(images(tmp_path, *names), DEFAULTS).notes == ()

    def test_groups_need_a_csv(self, class_folders):
        with pytest.raises(UserError, match=says(class_folders, "group_by='lesion' needs a CSV")):
            labeled_domain(class_folders, Settings(group_by="lesion"))


class TestUnlabeledFolders:
    @pytest.mark.parametrize(
        "names",
        [
            ("1.png", "2.png"),
            ("2023/may/1.png", "2023/june/2.png", "2024/3.png"),
            ("camera/1.png",),
            ("1.png", "more/2.png", "apple/3.png"),
        ],
    )
    def test_without_classes(self, tmp_path, names):
        domain = unlabeled_domain(str(images(tmp_path, *names)), ABC, DEFAULTS)
        assert truth(domain) == dict.fromkeys(names)
        assert domain.classes == ABC

    def test_ignored_folders_are_mentioned(self, tmp_path):
        domain = unlabeled_domain(str(images(tmp_path, "2023/1.png", "2024/1.png")), ABC, DEFAULTS)
        assert len(domain.notes) == 1
        assert re.search(says(tmp_path, "2023, 2024", "name no class"), domain.notes[0])

    def test_a_folder_above_that_of_the_classes_is_mentioned(self, tmp_path):
        domain = unlabeled_domain(str(images(tmp_path, "deep/cup/1.png", "deep/bowl/1.png")), ABC, DEFAULTS)
        assert re.search(says(tmp_path, "name no class", f"did you mean {tmp_path}/deep?"), domain.notes[0])

    def test_several_folders_above_those_of_the_classes_are_mentioned(self, tmp_path):
        domain = unlabeled_domain(images(tmp_path, "train/cup/1.png", "val/bowl/1.png"), ABC, DEFAULTS)
        assert domain.notes[0].endswith("folders of the classes: give one of them, or several sources")

    def test_loose_images_beside_folders_are_mentioned(self, tmp_path):
        images(tmp_path, "cup/1.png", "bowl/1.png", "apple/1.png", "stray.png")
        (note,) = unlabeled_domain(tmp_path, ABC, DEFAULTS).notes
        assert note.startswith(f"{tmp_path}: sub-folders (apple, bowl, cup) are not taken for classes")
        assert "because of 1 image outside them (stray.png)" in note
        assert not unlabeled_domain(tmp_path, ABC, Settings(unlabeled_layout="flat")).notes
        (tmp_path / "stray.png").rename(tmp_path / "cup/stray.png")
        assert not unlabeled_domain(tmp_path, ABC, DEFAULTS).notes

    def test_class_folders_give_the_truth(self, tmp_path):
        domain = unlabeled_domain(images(tmp_path, "cup/1.png", "bowl/1.png", "apple/1.png"), ABC, DEFAULTS)
        assert truth(domain) == {"apple/1.png": "apple", "bowl/1.png": "bowl", "cup/1.png": "cup"}
        assert domain.notes == ()

    def test_flat_ignores_sub_folders(self, tmp_path):
        images(tmp_path, "cup/1.png", "bowl/1.png", "dish/1.png")
        domain = unlabeled_domain(tmp_path, ABC, Settings(unlabeled_layout="flat"))
        assert set(truth(domain).values()) == {None}

    @pytest.mark.parametrize(
        ("folders", "message"),
        [
            (("apple", "bowl", "cups"), ["not in the labeled domain: cups (cup?)", "missing here: cup"]),
            (("apple", "bowl", "cup", "dish"), ["not in the labeled domain: dish", "rename"]),
            (("apple", "bowl"), ["missing here: cup", "match_classes='labeled'", "unlabeled_layout='flat'"]),
            (("Apple", "Bowl", "Cup"), ["Apple (apple?), Bowl (bowl?)", "missing here: apple, bowl, cup"]),
            (("x", "y", "z"), ["not in the labeled domain: x, y, z", "missing here: apple, bowl, cup"]),
            (("appel",), ["not in the labeled domain: appel (apple?)", "missing here: apple, bowl, cup"]),
        ],
    )
    def test_classes_must_match(self, tmp_path, folders, message):
        images(tmp_path, *(f"{folder}/1.png" for folder in folders))
        with pytest.raises(UserError, match=says(tmp_path, "classes do not match", *message)):
            unlabeled_domain(tmp_path, ABC, DEFAULTS)

    def test_missing_classes_with_an_empty_folder_or_another_case_are_told(self, tmp_path):
        images(tmp_path, "apple/1.png", "bowl/1.png")
        (tmp_path / "cup").mkdir()
        with pytest.raises(UserError, match=says("missing here: Bowl (bowl?), cup (no images in its folder)")):
            unlabeled_domain(tmp_path, ("Bowl", *ABC), DEFAULTS)

    def test_missing_classes_can_be_allowed_but_extra_ones_not(self, tmp_path):
        settings = Settings(match_classes="labeled")
        images(tmp_path, "apple/1.png", "cup/1.png")
        assert set(truth(unlabeled_domain(tmp_path, ABC, settings)).values()) == {"apple", "cup"}
        images(tmp_path, "dish/1.png")
        with pytest.raises(UserError, match=says("not in the labeled domain: dish")) as raised:
            unlabeled_domain(tmp_path, ABC, settings)
        assert "missing here" not in str(raised.value)

    def test_layout_classes_takes_folders_at_their_word(self, tmp_path):
        images(tmp_path, "2023/1.png", "2024/1.png")
        with pytest.raises(UserError, match=says("not in the labeled domain: 2023, 2024")):
            unlabeled_domain(tmp_path, ABC, Settings(unlabeled_layout="classes"))

    def test_layout_classes_refuses_loose_images(self, tmp_path):
        images(tmp_path, "apple/1.png", "bowl/1.png", "cup/1.png", "loose.png")
        with pytest.raises(UserError, match=says(tmp_path, "loose.png")):
            unlabeled_domain(tmp_path, ABC, Settings(unlabeled_layout="classes"))

    def test_long_lists_are_cut(self, tmp_path):
        images(tmp_path, *(f"apple{i:02}/1.png" for i in range(12)))
        with pytest.raises(UserError, match=says("apple07", "and 4 more")):
            unlabeled_domain(tmp_path, ABC, DEFAULTS)
        assert first_few(["a", "b", "c"], most=2) == "a, b and 1 more"


class TestCsv:
    def test_paths_are_relative_to_the_file(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path.parent)
        images(tmp_path, "pictures/1.png", "pictures/2.png")
        domain = labeled_domain(write_csv(tmp_path, "path,label\npictures/1.png,cup\npictures/2.png,bowl\n"), DEFAULTS)
        assert truth(domain) == {"pictures/1.png": "cup", "pictures/2.png": "bowl"}
        assert list(domain.items) == [tmp_path / "pictures/1.png", tmp_path / "pictures/2.png"]
        assert domain.classes == ("bowl", "cup")

    def test_absolute_paths_quotes_bom_and_extra_columns(self, tmp_path):
        images(tmp_path / "far", "a, b.png", "2.png")
        text = f'\ufeffpath,id,label\n"{tmp_path}/far/a, b.png",7,cup\nfar/2.png,8,"bowl, deep"\n'
        assert labeled_domain(write_csv(tmp_path, text), DEFAULTS).classes == ("bowl, deep", "cup")

    def test_other_column_names(self, tmp_path):
        images(tmp_path, "1.png", "2.png")
        settings = Settings(path_column="file", label_column="diagnosis")
        domain = labeled_domain(write_csv(tmp_path, "diagnosis,file\nnv,1.png\nmel,2.png\n"), settings)
        assert truth(domain) == {"1.png": "nv", "2.png": "mel"}

    def test_groups(self, tmp_path):
        images(tmp_path, "1.png", "2.png", "3.png")
        text = "path,label,lesion\n1.png,a,l1\n2.png,b,l2\n3.png,a,l1\n"
        domain = labeled_domain(write_csv(tmp_path, text), Settings(group_by="lesion"))
        assert domain.groups.tolist() == ["l1", "l2", "l1"]
        assert domain.keep(np.array([1, 2])).groups.tolist() == ["l2", "l1"]
        assert labeled_domain(tmp_path / "data.csv", DEFAULTS).groups is None

    def test_groups_of_the_labeled_domain_alone(self, tmp_path):
        """Where no class is known nothing is held out, so that nothing needs a group."""
        settings = Settings(group_by="lesion")
        flat, folders = images(tmp_path / "flat", "1.png"), images(tmp_path / "folders", *(f"{c}/1.png" for c in ABC))
        assert unlabeled_domain(flat, ABC, settings).groups is None
        with pytest.raises(UserError, match=says(folders, "group_by='lesion' needs a CSV")):
            unlabeled_domain([folders, folders], ABC, settings)
        path = write_csv(flat, "path,lesion\n1.png,l1\n")
        assert unlabeled_domain(path, ABC, settings).groups.tolist() == ["l1"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("path,label\n1.png,\n2.png,cup\n3.png,apple\n4.png,bowl\n", [None, "cup", "apple", "bowl"]),
            ("path,label\n1.png,\n2.png,\n3.png,\n4.png,\n", [None] * 4),
            ("path\n1.png\n2.png\n3.png\n4.png\n", [None] * 4),
        ],
    )
    def test_unlabeled_rows(self, tmp_path, text, expected):
        images(tmp_path, "1.png", "2.png", "3.png", "4.png")
        domain = unlabeled_domain(write_csv(tmp_path, text), ABC, DEFAULTS)
        assert list(truth(domain).values()) == expected
        assert domain.known.tolist() == [label is not None for label in expected]

    @pytest.mark.parametrize(
        ("text", "settings", "message"),
        [
            ("file,label\n1.png,a\n", {}, ["no column 'path'", "file, label"]),
            ("path;label\n1.png;a\n", {}, ["no column 'path'", "path;label: save it with commas"]),
            (
                "path,class\n1.png,a\n2.png,b\n",
                {},
                ["no column 'label'", "path, class; say which it is with label_column"],
            ),
            (
                "path,label\n1.png,a\n2.png,b\n",
                {"group_by": "lesion"},
                ["group_by='lesion' needs that column", "path, label"],
            ),
            ("path,label\n", {}, ["no rows"]),
            ("", {}, ["no column 'path'", "none"]),
            ("path,label\n1.png,a\nx.png,b\ny/z.png,a\n", {}, ["2 of 3 image files do not exist (x.png, y/z.png)"]),
            ("path,label\n1.png,a\n2.png,\n", {}, ["1 of 2 labeled samples have no label (2.png)"]),
            ("path,label\n1.png,a\n2.png,  \n", {}, ["1 of 2 labeled samples have no label (2.png)"]),
            ("path,label\n1.png,a\n2.png,a\n", {}, ["one class only (a)"]),
            ("label,path\na,1.png\nb\n", {}, []),
        ],
    )
    def test_bad_files(self, tmp_path, text, settings, message):
        images(tmp_path, "1.png", "2.png")
        path = write_csv(tmp_path, text)
        with pytest.raises(UserError, match=says(path, *message)):
            labeled_domain(path, Settings(**settings))

    @pytest.mark.parametrize("content", [bytes(range(256)), b"\x89PNG\r\n\x1a\n\0\0", b"\0" * 50, b'path,label\n"'])
    def test_binary_content(self, tmp_path, content):
        path = tmp_path / "data.csv"
        path.write_bytes(content)
        with pytest.raises(UserError, match=says(path)):
            labeled_domain(path, DEFAULTS)

    def test_another_encoding(self, tmp_path):
        path = tmp_path / "data.csv"
        path.write_text("path,label\n1.png,Tür\n", encoding="utf-16")
        with pytest.raises(UserError, match=says(path, "save it as CSV UTF-8")):
            labeled_domain(path, DEFAULTS)

    def test_flat_ignores_the_labels(self, tmp_path):
        """The message on classes that do not match offers it as a way out."""
        images(tmp_path, "1.png", "2.png")
        path = write_csv(tmp_path, "path,label\n1.png,x\n2.png,y\n")
        with pytest.raises(UserError, match="unlabeled_layout='flat'"):
            unlabeled_domain(path, ABC, DEFAULTS)
        domain = unlabeled_domain(path, ABC, Settings(unlabeled_layout="flat"))
        assert truth(domain) == {"1.png": None, "2.png": None}


class TestArrays:
    @pytest.mark.parametrize(
        "x",
        [
            np.zeros((4, 6, 5), np.uint8),
            np.zeros((4, 6, 5, 3), np.uint8),
            np.zeros((4, 6, 5, 3), np.float32),
            np.zeros((4, 7), np.float64),
            np.zeros((4, 7), np.int32),
        ],
    )
    def test_shapes(self, x):
        domain = labeled_domain((x, [2, 0, 10, 0]), DEFAULTS)
        assert domain.classes == (0, 2, 10)
        assert domain.labels.tolist() == [1, 0, 2, 0]
        assert domain.names == ("0", "1", "2", "3")
        assert domain.items.shape == x.shape

    @pytest.mark.parametrize(
        ("y", "classes", "labels"),
        [
            (np.array(["b", "a", "b"]), ("a", "b"), [1, 0, 1]),
            (np.array(["b", "a", "b"], dtype=object), ("a", "b"), [1, 0, 1]),
            (np.array([1.0, 0.0, 1.0]), (0, 1), [1, 0, 1]),
            (np.array([True, False, True]), (0, 1), [1, 0, 1]),
            ([10, 9, 10], (9, 10), [1, 0, 1]),
            (["10", "9", "10"], ("10", "9"), [0, 1, 0]),
        ],
    )
    def test_class_order(self, y, classes, labels):
        domain = labeled_domain((np.zeros((3, 2)), y), DEFAULTS)
        assert domain.classes == classes
        assert domain.labels.tolist() == labels

    @pytest.mark.parametrize(
        ("y", "labels"),
        [
            ([-1, 1, 0], [-1, 1, 0]),
            ([-1.0, 1.0, 0.0], [-1, 1, 0]),
            ([-1, -1, -1], [-1, -1, -1]),
            (np.array([None, 1, 0], dtype=object), [-1, 1, 0]),
            ([float("nan"), 1.0, 0.0], [-1, 1, 0]),
        ],
    )
    def test_unlabeled_samples(self, y, labels):
        domain = unlabeled_domain((np.zeros((3, 2)), y), (0, 1), DEFAULTS)
        assert domain.labels.tolist() == labels

    def test_unlabeled_without_y(self):
        domain = unlabeled_domain(np.zeros((3, 4, 4)), (0, 1), DEFAULTS)
        assert domain.labels.tolist() == [-1, -1, -1]
        assert domain.name == "unlabeled array"

    @pytest.mark.parametrize(
        ("source", "message"),
        [
            (np.zeros((4, 3)), ["need labels: pass (x, y), a tuple"]),
            ([np.zeros((4, 3)), np.array([0, 1, 0, 1])], ["need labels: pass (x, y), a tuple"]),
            ([np.zeros(3), np.ones(3)], ["need labels: pass (x, y), a tuple"]),
            ((np.zeros((4, 3)), [0, 1]), ["4 samples but 2 labels"]),
            ((np.zeros(4), [0, 1, 0, 1]), ["shape (4,)", "(N, features)"]),
            ((np.zeros((0, 3)), []), ["shape (0, 3)"]),
            ((np.array([["a"], ["b"]]), [0, 1]), ["type <U1"]),
            ((np.zeros((4, 3)), [0, 1, -1, 0]), ["1 of 4 labeled samples have no label (2)"]),
            ((np.zeros((2, 3)), [5, 5]), ["one class only (5)"]),
            ((np.zeros((2, 3)), [[1, 0], [0, 1]]), []),
        ],
    )
    def test_bad_arrays(self, source, message):
        with pytest.raises(UserError, match=says(*message)):
            labeled_domain(source, DEFAULTS)

    def test_a_list_of_two_is_two_samples(self):
        domain = unlabeled_domain([np.zeros(3), np.ones(3)], (0, 1), DEFAULTS)
        assert domain.items.tolist() == [[0] * 3, [1] * 3] and domain.labels.tolist() == [-1, -1]
        with pytest.raises(UserError, match=says("the unlabeled list", "samples of one shape", "(x, y) is a tuple")):
            unlabeled_domain([np.zeros((4, 3)), [0, 1, 0, 1]], (0, 1), DEFAULTS)

    def test_classes_must_match(self):
        x = np.zeros((3, 2))
        with pytest.raises(UserError, match=says("unlabeled array", "not in the labeled domain: 2", "missing here: 1")):
            unlabeled_domain((x, [0, 2, 2]), (0, 1), DEFAULTS)
        domain = unlabeled_domain((x, [0, 2, 2]), (0, 1), Settings(unlabeled_layout="flat"))
        assert domain.labels.tolist() == [-1, -1, -1]


class TestNumpyFiles:
    def test_npz(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(path, x=np.arange(24, dtype=np.uint8).reshape(2, 3, 4), y=np.array(["cup", "bowl"]))
        domain = labeled_domain(str(path), DEFAULTS)
        assert domain.name == str(path)
        assert domain.classes == ("bowl", "cup")
        np.testing.assert_array_equal(domain.items[1], np.arange(12, 24).reshape(3, 4))

    def test_unlabeled_npz_and_npy(self, tmp_path):
        x = np.zeros((2, 3, 4), np.uint8)
        np.savez(tmp_path / "x.npz", x=x)
        np.savez(tmp_path / "xy.npz", x=x, y=[1, 0])
        np.save(tmp_path / "x.npy", x)
        found = [unlabeled_domain(tmp_path / n, (0, 1), DEFAULTS).labels.tolist() for n in ("x.npz", "xy.npz", "x.npy")]
        assert found == [[-1, -1], [1, 0], [-1, -1]]

    def test_wrong_names(self, tmp_path):
        np.savez(tmp_path / "data.npz", images=np.zeros((2, 2)), labels=[0, 1])
        with pytest.raises(UserError, match=says("data.npz", "'x' and 'y'", "images, labels")):
            labeled_domain(tmp_path / "data.npz", DEFAULTS)

    @pytest.mark.parametrize("name", ["data.npz", "data.npy"])
    @pytest.mark.parametrize("content", [b"", b"no numpy", b"PK\3\4 a broken zip file", b"\x93NUMPY\1\0"])
    def test_damaged_files(self, tmp_path, name, content):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=says(tmp_path / name)):
            labeled_domain(tmp_path / name, DEFAULTS)

    def test_cut_short(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(path, x=np.zeros((20, 30)), y=np.arange(20) % 2)
        path.write_bytes(path.read_bytes()[:1000])
        with pytest.raises(UserError, match=says(path)):
            labeled_domain(path, DEFAULTS)

    def test_pickled_objects_are_refused(self, tmp_path):
        path = tmp_path / "data.npz"
        np.savez(path, x=np.zeros((2, 3)), y=np.array(["a", "b"], dtype=object))
        with pytest.raises(UserError, match=says(path)):
            labeled_domain(path, DEFAULTS)


class TestSource:
    def source(self, **changes):
        parts = {"items": np.zeros((4, 8, 8)), "names": list("abcd"), "labels": ["x", "y", "x", "y"]}
        return Source("own", **parts | {"columns": {"patient": ["p", "", "p", ""]}} | changes)

    def test_is_a_domain_once_resolved(self):
        domain = labeled_domain(self.source(notes=("a note",)), Settings(group_by="patient"))
        assert (domain.name, domain.classes, domain.labels.tolist()) == ("own", ("x", "y"), [0, 1, 0, 1])
        assert domain.groups.tolist() == ["p", "row 1", "p", "row 3"] and domain.notes == ("a note",)

    def test_what_shares_a_column_is_noted(self):
        (note,) = labeled_domain(self.source(), DEFAULTS).notes
        assert "2 of 4 images share their patient with another" in note
        assert note.endswith("Set group_by to patient to keep them on one side")

    def test_lengths_must_agree(self):
        with pytest.raises(UserError, match=r"own: .*got 4 items, 4 names, 3 labels, 4 patient"):
            self.source(labels=["x", "y", "x"])

    def test_nothing_in_it(self):
        with pytest.raises(UserError, match="own: found no classes, as there are no samples"):
            labeled_domain(Source("own", [], [], []), DEFAULTS)

    def test_arrays_have_no_groups(self):
        with pytest.raises(UserError, match="labeled array: group_by='patient' needs a CSV"):
            labeled_domain((np.zeros((4, 8)), list("xyxy")), Settings(group_by="patient"))


class TestTestDomain:
    def test_needs_no_groups(self, tmp_path):
        """The run was split by groups; what it is measured on need not have any."""
        images(tmp_path, "cup/1.png")
        assert domain.test_domain(tmp_path, ABC, Settings(group_by="patient")).groups is None

    def test_some_classes_may_be_missing(self, tmp_path):
        images(tmp_path, "cup/1.png")
        assert truth(domain.test_domain(tmp_path, ABC, DEFAULTS)) == {"cup/1.png": "cup"}

    def test_unknown_classes_are_named(self, tmp_path):
        images(tmp_path, "cup/1.png", "bowls/1.png")
        with pytest.raises(UserError, match=says(tmp_path, "bowls (bowl?)")):
            domain.test_domain(tmp_path, ABC, DEFAULTS)
