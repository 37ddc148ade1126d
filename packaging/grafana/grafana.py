"""The parts of a dashboard as Grafana 10 and later read them. Every query goes to the data source that the variable names."""

from __future__ import annotations

from typing import Any

WIDTH = 24
# Grafana's own names
TYPES = {"prometheus": "Prometheus", "influxdb": "InfluxDB"}


def source(plugin: str) -> dict[str, str]:
    return {"type": plugin, "uid": "${datasource}"}


def variables(plugin: str, name: str, label: str, query: str, start: str) -> list[dict[str, Any]]:
    """The data source, and one that its values are chosen by: several, or all."""
    chosen = {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": source(plugin),
        "query": {"query": query, "refId": "values"} if plugin == "prometheus" else query,
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }
    which = {"type": "datasource", "name": "datasource", "label": TYPES[plugin], "query": plugin, "current": {}}
    return [which | {"description": start}, chosen]


def prometheus(expr: str, legend: str = "", how: str = "time_series") -> dict[str, Any]:
    """A query; `how` is time_series, table or heatmap. A table has one value for the whole range."""
    instant = how == "table"
    return {
        "expr": expr,
        "legendFormat": legend or "__auto",
        "format": how,
        "instant": instant,
        "range": not instant,
        "editorMode": "code",
    }


def influx(query: str, alias: str = "", how: str = "time_series") -> dict[str, Any]:
    return {"query": query, "alias": alias, "resultFormat": how, "rawQuery": True}


def panel(kind: str, title: str, about: str, targets: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """`width` and `height` are in cells; `unit` is Grafana's name of it."""
    height, width = more.pop("height", 8), more.pop("width", 12)
    unit = more.pop("unit", "short")
    made = {"type": kind, "title": title, "description": about, "size": (width, height), "targets": targets}
    made["interval"] = more.pop("interval", "10s")
    custom = more.pop("custom", {})
    defaults: dict[str, Any] = {"unit": unit, "min": 0} if kind == "timeseries" else {"unit": unit}
    if custom:
        defaults["custom"] = custom
    made["fieldConfig"] = {"defaults": defaults, "overrides": more.pop("overrides", [])}
    made["options"] = more.pop("options", {})
    return made | more


def lines(title: str, about: str, targets: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    custom = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "auto"} | more.pop("custom", {})
    if more.pop("stacked", False):
        custom |= {"fillOpacity": 40, "stacking": {"mode": "normal", "group": "A"}}
    legend = {"displayMode": "table", "placement": "right", "showLegend": True, "calcs": ["mean", "max"]}
    options = {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
    return panel("timeseries", title, about, targets, custom=custom, options=options, **more)


def heatmap(title: str, about: str, targets: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Each series is a row; what it has at a time is the colour."""
    cell, row = more.pop("cell", "short"), more.pop("row", "short")
    options = {
        "calculate": False,
        "color": {"mode": "scheme", "scheme": "Oranges", "scale": "exponential", "exponent": 0.5, "fill": "dark-orange", "steps": 64},
        "cellGap": 1,
        "cellValues": {"unit": cell},
        "yAxis": {"unit": row, "axisPlacement": "left"},
        "filterValues": {"le": 1e-9},
        "legend": {"show": True},
        "tooltip": {"show": True},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "showValue": "never",
    }
    return panel("heatmap", title, about, targets, options=options, **more)


def table(title: str, about: str, targets: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """`names` are columns by what they are to be called, in order; `hide` are those that say nothing; `top` is how many rows."""
    names, hide, top = more.pop("names"), more.pop("hide"), more.pop("top", 0)
    steps: list[dict[str, Any]] = [{"id": "merge", "options": {}}] if len(targets) > 1 else []
    order = {"indexByName": {name: i for i, name in enumerate(names)}, "renameByName": names, "excludeByName": dict.fromkeys(hide, True)}
    steps.append({"id": "organize", "options": order})
    sort = more.pop("sort", None)
    if sort:
        steps.append({"id": "sortBy", "options": {"fields": {}, "sort": [{"field": sort, "desc": True}]}})
    if top:
        steps.append({"id": "limit", "options": {"limitField": top}})
    options = {"showHeader": True, "cellHeight": "sm", "footer": {"show": False, "reducer": ["sum"], "countRows": False, "fields": ""}}
    return panel("table", title, about, targets, options=options, transformations=steps, **more)


def column(name: str, **properties: Any) -> dict[str, Any]:
    """How one column of a table looks."""
    told = [{"id": key.replace("_", "."), "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byName", "options": name}, "properties": told}


def row(title: str) -> dict[str, Any]:
    return {"type": "row", "title": title, "collapsed": False, "panels": [], "size": (WIDTH, 1)}


def placed(panels: list[dict[str, Any]], plugin: str) -> list[dict[str, Any]]:
    """From left to right and from above to below, numbered, each query to the data source of the variable."""
    x = y = tallest = 0
    done = []
    for number, one in enumerate(panels, 1):
        one = dict(one)
        width, height = one.pop("size")
        if x + width > WIDTH:
            x, y, tallest = 0, y + tallest, 0
        one |= {"id": number, "gridPos": {"x": x, "y": y, "w": width, "h": height}}
        if one["type"] != "row":
            one["datasource"] = source(plugin)
            letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
            one["targets"] = [t | {"refId": letters[i], "datasource": source(plugin)} for i, t in enumerate(one["targets"])]
        x, tallest = x + width, max(tallest, height)
        done.append(one)
    return done


def dashboard(name: str, title: str, about: str, plugin: str, panels: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {
        "uid": name,
        "title": title,
        "description": about,
        "tags": ["quell"],
        "schemaVersion": 38,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,
        "time": {"from": more.get("since", "now-1h"), "to": "now"},
        "refresh": more.get("refresh", "30s"),
        "timezone": "browser",
        "templating": {"list": more["variables"]},
        "annotations": {"list": more.get("annotations", [])},
        "links": [],
        "panels": placed(panels, plugin),
    }
