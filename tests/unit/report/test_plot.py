"""Bars and curves drawn as text and as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from stoker.report.plot import Bar, Curve, Plot, as_svg, bars, in_ascii, in_text

SVG = "{http://www.w3.org/2000/svg}"


def rising(*, is_log: bool = False, marks: tuple[tuple[float, str], ...] = ()) -> Plot:
    return Plot(
        title="AU <of> a run",
        x_name="batch",
        x=(1.0, 10.0, 100.0),
        curves=(Curve("up", "o", (0.0, 0.5, 1.0)), Curve("down", "x", (1.0, 0.5, 0.0))),
        y_text=lambda y: f"{y:.0%}",
        marks=marks,
        is_log=is_log,
    )


def test_bars_have_one_scale_and_a_line_at_the_step() -> None:
    drawn = bars([Bar("cores", 0.2), Bar("the step", 0.1), Bar("link", 0.0)], mark_s=0.1, width=50)
    lengths = [line.count("█") for line in drawn]
    assert lengths[0] == 2 * lengths[1]
    assert lengths[2] == 0
    assert "┃" in drawn[2]
    assert all(len(line) <= 50 for line in drawn)


def test_pictures_are_spelled_in_ascii_at_the_same_width() -> None:
    drawn = [*bars([Bar("cores", 0.2), Bar("the step", 0.1)], mark_s=0.1, width=50)]
    drawn += in_text(rising(is_log=True, marks=((10.0, "here"),)), width=60)
    for line in drawn:
        spelled = in_ascii(line)
        assert spelled.isascii()
        assert len(spelled) == len(line)


def test_the_shortest_time_is_still_seen() -> None:
    assert "▏" in bars([Bar("long", 1.0), Bar("short", 1e-6)], mark_s=1.0, width=60)[1]


def test_a_curve_goes_from_corner_to_corner() -> None:
    lines = in_text(rising(is_log=True), width=60, height=5)
    body = [line.partition("│")[2].ljust(54) for line in lines if "│" in line]
    assert body[0].startswith("x")
    assert body[0].rstrip().endswith("o")
    assert body[-1].startswith("o")
    assert body[-1].rstrip().endswith("x")
    assert "100%" in lines[1]


def test_an_axis_of_factors_has_its_middle_at_the_geometric_mean() -> None:
    marked = rising(is_log=True, marks=((10.0, "here"),))
    line = next(line for line in in_text(marked, width=60) if "┊" in line)
    body = line.partition("│")[2]
    assert abs(body.index("┊") - 26) <= 1


def test_a_mark_outside_the_axis_is_not_drawn() -> None:
    lines = in_text(rising(marks=((1000.0, "far"),)), width=60)
    assert not any("┊" in line for line in lines[1:-1])


def test_the_svg_is_xml_with_a_line_for_each_curve() -> None:
    root = ET.fromstring(as_svg(rising(marks=((10.0, "B* = 10"),))))
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 2
    first, last = lines[0].attrib["points"].split()[0], lines[0].attrib["points"].split()[-1]
    assert first.split(",")[1] == "300.0"  # 0 at the bottom
    assert last.split(",")[1] == "40.0"  # 100% at the top
    assert any(text.text == "B* = 10" for text in root.iter(f"{SVG}text"))
    assert any(text.text == "AU <of> a run" for text in root.iter(f"{SVG}text"))


def test_the_svg_loads_nothing_from_elsewhere() -> None:
    text = as_svg(rising())
    assert "href" not in text
    assert "script" not in text
