"""Named views: one array, names on its last axis."""

import copy
import pickle

import numpy as np
import pytest

from pied import Named, UnknownName


def array_view() -> Named:
    return Named(("X_A", "X_G"), np.arange(12.0).reshape(2, 3, 2))


def test_names_reach_columns_as_attributes_and_items() -> None:
    y = array_view()
    assert np.array_equal(y.X_A, y.array[..., 0])
    assert np.array_equal(y["X_G"], y.array[..., 1])


def test_floats_are_reached_the_same_way() -> None:
    x = Named(("F_B", "T_r"), (4.5, 80.0))
    assert (x.F_B, x["T_r"], x.array.tolist()) == (4.5, 80.0, [4.5, 80.0])


def test_a_list_of_floats_is_kept_as_numbers_of_its_own() -> None:
    given = [1.0]
    x = Named(("a",), given)
    given[0] = x.array[0] = 2.0
    assert x.a == 1.0


def test_a_point_is_an_array_and_has_places() -> None:
    x = Named(("F_B", "T_r"), (4.5, 80.0))
    assert (x[0], x[1], x[-1], x[np.int64(1)]) == (4.5, 80.0, 80.0, 80.0)
    assert np.array(x).tolist() == np.asarray(x, dtype=float).tolist() == list(x.values()) == [4.5, 80.0]
    assert (2 * x.array).tolist() == [9.0, 160.0]
    assert np.array_equal(array_view()[1], array_view().X_G)
    with pytest.raises(IndexError, match="no place 2 among 2"):
        x[2]


def test_named_is_a_mapping() -> None:
    x = Named(("F_B", "T_r"), (4.5, 80.0))
    assert dict(x) == {"F_B": 4.5, "T_r": 80.0}
    assert list(x) == ["F_B", "T_r"]
    assert len(x) == 2
    assert "F_B" in x
    assert "F_X" not in x
    assert x.get("F_X", 0.0) == 0.0

    def total(F_B: float, T_r: float) -> float:
        return F_B + T_r

    assert total(**x) == 84.5


@pytest.mark.parametrize("access", [lambda y: y.XA, lambda y: y["XA"]])
def test_unknown_name_suggests_the_one_meant(access) -> None:
    with pytest.raises(UnknownName, match=r"no 'XA' here\. Did you mean 'X_A'\?"):
        access(array_view())


def test_unknown_name_is_a_key_and_an_attribute_error() -> None:
    y = array_view()
    assert not hasattr(y, "nothing")
    with pytest.raises(KeyError, match="Known: 'X_A', 'X_G'"):
        y["nothing"]


@pytest.mark.parametrize("name", ["array", "keys", "items", "values", "get", "_array", "_index"])
def test_names_that_clash_with_methods_stay_reachable_by_item(name: str) -> None:
    x = Named((name, "b"), (1.0, 2.0))
    assert x[name] == 1.0
    assert x.array.tolist() == [1.0, 2.0]
    assert dict(x) == {name: 1.0, "b": 2.0}


@pytest.mark.parametrize("name", ["c(1,10)", "residual A", "2nd", "η", "温度", "class", "∂y"])
def test_any_text_can_be_a_name(name: str) -> None:
    assert Named((name,), (3.0,))[name] == 3.0


def test_names_are_found_in_the_form_python_gives_identifiers() -> None:
    x = Named(("\u00b5", "ﬁ"), (1.0, 2.0))  # the micro sign and a ligature: Python reads them as other characters
    assert (x.µ, x.ﬁ) == (1.0, 2.0)
    assert x["\u03bc"] == 1.0


def test_views_cannot_be_assigned_to() -> None:
    x = Named(("a",), (1.0,))
    with pytest.raises(AttributeError, match="a"):
        x.a = 2.0
    with pytest.raises(TypeError, match="item assignment"):
        x["a"] = 2.0


def test_repr_shows_names_and_values_or_shape() -> None:
    assert repr(Named(("F_B", "T_r"), (4.5, 80.0))) == "Named(F_B=4.5, T_r=80)"
    assert repr(array_view()) == "Named(X_A, X_G; shape (2, 3, 2))"


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_views_survive_copying_and_pickling(copied) -> None:
    x = copied(Named(("F_B", "T_r"), (4.5, 80.0)))
    assert dict(x) == {"F_B": 4.5, "T_r": 80.0}
    assert np.array_equal(copied(array_view()).X_G, array_view().X_G)


def test_a_number_of_one_point_is_a_number_and_may_be_counted_up() -> None:
    point = np.array([1.0, 2.0])
    total = Named(("a", "b"), point).a
    total += 5.0
    assert isinstance(total, float)
    assert point.tolist() == [1.0, 2.0]


def test_attributes_are_listed_for_completion() -> None:
    assert {"X_A", "X_G", "array"} <= set(dir(array_view()))
    assert "c(1,10)" not in dir(Named(("c(1,10)",), (1.0,)))
