"""Elements of text: what is not markup is escaped."""

from __future__ import annotations

from markupsafe import Markup

from app.share.markup import joined, tag


def test_whatever_is_not_markup_is_escaped():
    made = tag("p", "<b>", Markup("<i>"), title='"&', hidden=True, data_x="1", lang=None)
    assert made == '<p title="&#34;&amp;" hidden data-x="1">&lt;b&gt;<i></p>'
    assert joined("a", None, "<") == "a&lt;"


def test_void_elements_have_no_end_and_false_leaves_an_attribute_out():
    assert tag("br") == "<br>"
    assert tag("meta", http_equiv="x", hidden=False) == '<meta http-equiv="x">'
    assert tag("p", class_="a", kind="b") == '<p class="a" kind="b"></p>'
