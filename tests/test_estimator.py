"""HSSLClassifier: scikit-learn's own checks, skada's convention, and what scikit-learn's tools do with it."""

import io
import warnings

import joblib
import numpy as np
import pytest
import sklearn
from PIL import Image
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import unihssl
from unihssl.estimator import HSSLClassifier, label_free_scorer

QUICK = {"epochs": 3, "batch_size": 16, "device": "cpu"}
SHORT = {"settings": {"pretrain_epochs": 3}}
EXPECTED_FAILURES = {"check_classifiers_classes": "uses -1 as a class, which means 'no label' here, as in skada"}

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of a domain that is not learnt in three epochs


@pytest.fixture(autouse=True)
def no_routing():
    """As scikit-learn is by default: skada, where a test has imported it, switches metadata routing on."""
    with sklearn.config_context(enable_metadata_routing=False):
        yield


@parametrize_with_checks([HSSLClassifier(**QUICK, **SHORT)], expected_failed_checks=lambda _: EXPECTED_FAILURES)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def both(vector_arrays):
    """Samples of both domains in one array, true labels, and domains by skada's convention."""
    (x, y), (u, truth) = vector_arrays
    order = np.random.default_rng(0).permutation(120)
    return np.concatenate([x, u])[order], np.concatenate([y, truth])[order], np.repeat([1, -2], 60)[order]


def quick(**parameters) -> HSSLClassifier:
    return HSSLClassifier(**QUICK | {"epochs": 8} | SHORT | parameters)


def test_it_is_fit(both):
    """The same knobs and samples give the weights that `unihssl.fit` gives."""
    x, y, domain = both
    source = domain >= 0
    estimator = quick().fit(x, np.where(source, y, -1))
    knobs = {"epochs": 8, "batch_size": 16, "pretrain_epochs": 3, "test_fraction": 0, "tensorboard": False}
    model = unihssl.fit((x[source], y[source]), x[~source], device="cpu", **knobs)
    np.testing.assert_array_equal(estimator.predict_proba(x), model.predict_proba(x))
    np.testing.assert_array_equal(estimator.predict_domain(x), model.predict_domain(x))
    assert estimator.classes_.tolist() == [10, 20, 30] and estimator.n_features_in_ == 5
    assert estimator.score(x, y) > 0.9
    assert estimator.score(x, np.where(source, y, -1)) == estimator.score(x[source], y[source])


def test_labels_of_target_samples_train(both):
    x, y, domain = both
    masked = np.where((domain >= 0) | (np.arange(120) < 30), y, -1)
    fitted = quick().fit(x, masked, sample_domain=domain)
    source = domain >= 0
    knobs = {"epochs": 8, "batch_size": 16, "pretrain_epochs": 3, "test_fraction": 0, "tensorboard": False}
    labels = masked[~source]
    model = unihssl.fit((x[source], y[source]), x[~source], target_labels=labels, device="cpu", **knobs)
    np.testing.assert_array_equal(fitted.predict_proba(x), model.predict_proba(x))


@pytest.mark.parametrize("nothing", [None, float("nan")])
def test_names_of_classes(both, nothing):
    x, y, domain = both
    names = np.array([f"class {label}" for label in y], dtype=object)
    names[domain < 0] = nothing
    by_name = quick().fit(x, names.tolist())
    assert by_name.classes_.tolist() == ["class 10", "class 20", "class 30"]
    by_number = quick().fit(x, np.where(domain < 0, -1, y))
    assert by_name.predict(x).tolist() == [f"class {label}" for label in by_number.predict(x)]


def test_images_and_paths_of_them_agree(image_arrays, tmp_path):
    (x, y), (u, _) = image_arrays
    some = np.arange(0, 60, 3)
    samples = np.concatenate([x[some], u[some]])
    labels = np.array([*y[some].tolist(), *[None] * len(some)], dtype=object)
    paths = [tmp_path / f"{i:02d}.png" for i in range(len(samples))]
    for path, pixels in zip(paths, samples, strict=True):
        Image.fromarray(pixels).save(path)
    estimator = HSSLClassifier("supervised", backbone="small_cnn", **QUICK)
    of_images, of_paths = clone(estimator).fit(samples, labels), clone(estimator).fit(list(map(str, paths)), labels)
    np.testing.assert_array_equal(of_images.predict_proba(samples), of_paths.predict_proba(paths))
    assert of_paths.n_features_in_ == 1 and set(of_paths.classes_) == {"blue", "green", "red"}


def test_what_does_not_fit_together_is_an_error(both):
    x, y, domain = both
    with pytest.raises(ValueError, match="60 samples of the source domain have no label"):
        quick().fit(x, np.where(domain < 0, -1, y), sample_domain=np.ones(120))
    with pytest.raises(ValueError, match=r"target domain that the source domain does not have: \['30'\]"):
        quick().fit(x, y, sample_domain=np.where(y == 30, -1, 1))
    for given in ({"y": y, "sample_domain": -np.ones(120)}, {"y": np.full(120, -1)}):
        with pytest.raises(ValueError, match="no sample is of the source domain: give some a label"):
            quick().fit(x, **given)
    with pytest.raises(ValueError, match="unknown method 'unknown'"):
        quick(method="unknown").fit(x, np.where(domain < 0, -1, y))
    with pytest.raises(ValueError, match="supervised does not tell the domains apart"):
        HSSLClassifier("supervised", **QUICK).fit(x, np.where(domain < 0, -1, y)).predict_domain(x)


def test_grid_search_without_target_labels_in_a_pipeline(both):
    x, y, domain = both
    masked = np.where(domain < 0, -1, y)
    pipeline = make_pipeline(StandardScaler(), HSSLClassifier("supervised", **QUICK))
    grid = {"hsslclassifier__epochs": [1, 12]}
    search = GridSearchCV(pipeline, grid, scoring=label_free_scorer("corr_c"), cv=2)
    search.fit(x, masked, hsslclassifier__sample_domain=domain)
    assert search.best_params_ == {"hsslclassifier__epochs": 12}
    scores = search.cv_results_["mean_test_score"]
    assert ((scores > 0) & (scores <= 1)).all()
    # By hand: the score of the target samples alone, through the pipeline's own scaling.
    p = search.best_estimator_.predict_proba(x[domain < 0]).astype(np.float64)
    expected = np.trace(p.T @ p) / (np.linalg.norm(p.T @ p) * np.sqrt(3))
    for given in ({"y": masked}, {"y": y, "sample_domain": domain}, {"sample_domain": domain}):
        assert label_free_scorer()(search.best_estimator_, x, **given) == pytest.approx(expected, abs=1e-6)
    with pytest.raises(ValueError, match="no label-free score is called 'luck': there are confidence"):
        label_free_scorer("luck")  # not as late as in a search, which would make a NaN of it


def test_joblib_keeps_it(both):
    x, y, domain = both
    fitted = quick().fit(x, np.where(domain < 0, -1, y))
    kept = io.BytesIO()
    joblib.dump(fitted, kept)
    kept.seek(0)
    np.testing.assert_array_equal(joblib.load(kept).predict_proba(x), fitted.predict_proba(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clone(fitted).get_params() == fitted.get_params() and not hasattr(clone(fitted), "model_")


@pytest.fixture(scope="module")
def paths(tmp_path_factory) -> list[str]:
    folder = tmp_path_factory.mktemp("paths")
    for i in range(24):
        Image.fromarray(np.full((8, 8, 3), 80 * (i % 3), np.uint8)).save(folder / f"{i}.png")
    return [str(folder / f"{i}.png") for i in range(24)]


NAMES = np.array(["abc"[i % 3] if i < 12 else None for i in range(24)], dtype=object)
BRIEF = {"method": "supervised", "epochs": 1, "batch_size": 8, "device": "cpu"}


def series(items):
    return pytest.importorskip("pandas").Series(items)


@pytest.mark.parametrize("kind", [list, np.array, lambda p: np.array(p, dtype=object), series])
def test_the_scorer_takes_paths_as_fit_does(paths, kind):
    model = HSSLClassifier(**BRIEF, backbone="small_cnn").fit(kind(paths), NAMES)
    found = label_free_scorer("confidence")(model, kind(paths), NAMES)
    assert found == pytest.approx(float(model.predict_proba(paths[12:]).max(1).mean()), abs=1e-5)


def test_names_and_none_are_searched_with_plain_folds(paths):
    search = GridSearchCV(
        HSSLClassifier(**BRIEF, backbone="small_cnn"),
        {"lr": [0.01]},
        scoring=label_free_scorer(),
        cv=KFold(2, shuffle=True, random_state=0),
        error_score="raise",
    )
    assert np.isfinite(search.fit(paths, NAMES).best_score_)


def test_the_scorer_takes_lists_and_pipelines_of_one_step():
    rng = np.random.default_rng(0)
    truth = np.arange(24) % 3
    x, y = rng.normal(size=(24, 4)) + 3 * np.eye(4)[truth], np.where(np.arange(24) < 12, truth, -1)
    model = make_pipeline(HSSLClassifier(**BRIEF)).fit(x, y)
    assert label_free_scorer()(model, x.tolist(), y) == label_free_scorer()(model[-1], x, y)


def test_labels_that_became_text_and_settings_that_are_parameters_are_refused():
    x = np.random.default_rng(0).normal(size=(6, 4))
    with pytest.raises(ValueError, match="a label is the text 'nan'"):
        HSSLClassifier(**BRIEF).fit(x, np.array(["a", "b", "a", "b", "nan", "nan"]))
    with pytest.raises(ValueError, match="settings: test_fraction is set by the estimator"):
        HSSLClassifier(**BRIEF, settings={"test_fraction": 0.5}).fit(x, [0, 1, 0, 1, -1, -1])
    with pytest.raises(ValueError, match="settings: epochs is also a parameter, and set there: give it once"):
        HSSLClassifier(**BRIEF, settings={"epochs": 2}).fit(x, [0, 1, 0, 1, -1, -1])
