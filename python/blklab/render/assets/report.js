// Draws the charts. Colours are CSS variables, so that a change of colour scheme, or printing, needs no redrawing.
(function () {
  "use strict";
  const page = JSON.parse(document.getElementById("charts").textContent);
  const views = [];
  let zooming = false;
  let logarithmic = false;

  // Charts over time zoom together.
  function follow(view) {
    try {
      view.signal("zoom_t");
    } catch (_) {
      return false;
    }
    views.push(view);
    view.addSignalListener("zoom_t", function (_, range) {
      if (zooming) return;
      zooming = true;
      const others = views.filter((other) => other !== view);
      Promise.all(others.map((other) => other.signal("zoom_t", range).runAsync())).finally(function () {
        zooming = false;
      });
    });
    return true;
  }

  // --- one cursor and one range over all charts over time ---

  const timed = [];
  let begin = null; // of the range that is dragged, in the unit of the axis

  const origin = (chart) =>
    chart.place.querySelector("svg").getBoundingClientRect().left - chart.place.getBoundingClientRect().left + chart.view.origin()[0];

  function timeAt(chart, event) {
    const left = chart.place.getBoundingClientRect().left + origin(chart);
    const width = chart.view.width();
    return chart.view.scale("x").invert(Math.min(width, Math.max(0, event.clientX - left)));
  }

  function placeCursor(time) {
    for (const chart of timed) {
      const x = chart.view.scale("x")(time);
      chart.cursor.hidden = !(x >= 0 && x <= chart.view.width());
      chart.cursor.style.left = `${origin(chart) + x}px`;
    }
  }

  function placeRange(from, to) {
    for (const chart of timed) {
      const scale = chart.view.scale("x");
      const left = Math.max(0, scale(from)), right = Math.min(chart.view.width(), scale(to));
      chart.band.hidden = !(right > left);
      chart.band.style.left = `${origin(chart) + left}px`;
      chart.band.style.width = `${right - left}px`;
      sumUp(chart, from, to);
    }
  }

  const amounts = {
    "I/Os a second": (amount) => `${Math.round(amount).toLocaleString("en")} I/Os`,
    "bytes a second": (amount) => {
      const power = Math.min(5, Math.max(0, Math.floor(Math.log2(Math.max(1, amount)) / 10)));
      return `${(amount / 1024 ** power).toPrecision(3)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][power]}`;
    },
  };

  // Rates of slices become amounts; of a share of the time, the mean is what is wanted.
  function sumUp(chart, from, to) {
    if (!chart.range) return;
    const { unit, seconds, series } = chart.range;
    const rows = page.specs[chart.place.dataset.chart].data.values;
    const texts = series.map(function ({ key, name }) {
      let amount = 0;
      for (const row of rows) amount += row[key] * Math.max(0, Math.min(to, row.t_end) - Math.max(from, row.t)) * seconds;
      const mean = amount / ((to - from) * seconds);
      if (unit === "utilisation") return `${name} ${(100 * mean).toPrecision(3)} % busy`;
      return `${name} ${amounts[unit](amount)} (${amounts[unit](mean)} per second)`;
    });
    const at = (time) => `${(time * seconds).toPrecision(3)} s`;
    chart.sums.textContent = `From ${at(from)} to ${at(to)}: ${texts.join("; ")}`;
    chart.sums.hidden = false;
  }

  function forgetRange() {
    for (const chart of timed) chart.band.hidden = chart.sums.hidden = true;
  }

  function mark(view, place, range) {
    const chart = { view, place, range, sums: place.parentElement.querySelector(".range") };
    for (const part of ["cursor", "band"]) {
      chart[part] = document.createElement("i");
      Object.assign(chart[part], { className: part, hidden: true });
      place.append(chart[part]);
    }
    timed.push(chart);
    place.addEventListener("pointermove", function (event) {
      const time = timeAt(chart, event);
      placeCursor(time);
      if (begin !== null) {
        event.stopPropagation();
        if (time !== begin) placeRange(Math.min(begin, time), Math.max(begin, time));
      }
    }, true);
    place.addEventListener("pointerleave", function () {
      for (const other of timed) other.cursor.hidden = true;
    });
    place.addEventListener("pointerdown", function (event) {
      if (!event.shiftKey) return;
      event.preventDefault();
      event.stopPropagation();
      forgetRange();
      begin = timeAt(chart, event);
    }, true);
  }

  addEventListener("pointerup", () => (begin = null));
  addEventListener("keydown", (event) => event.key === "Escape" && forgetRange());

  function embed(place, spec) {
    return vegaEmbed(place, spec, {
      actions: false,
      ast: true, // expressions are interpreted: the page's policy forbids making code of text
      config: { ...page.config, legend: { ...page.config.legend, columns: Math.max(2, Math.floor(place.clientWidth / 150)) } },
      defaultStyle: false,
      renderer: "svg",
    });
  }

  // A chart that can be either has the other scale with it.
  function scaled(spec) {
    if (!(spec.usermeta && spec.usermeta.log && logarithmic)) return spec;
    const made = JSON.parse(JSON.stringify(spec));
    for (const layer of made.layer) {
      Object.assign(layer.encoding.y.scale, { type: "log", domain: spec.usermeta.log.domain });
      layer.encoding.y.axis.values = spec.usermeta.log.values;
    }
    return made;
  }

  async function draw(place) {
    place.dataset.drawn = "yes";
    try {
      const drawn = await embed(place, scaled(page.specs[place.dataset.chart]));
      const meta = page.specs[place.dataset.chart].usermeta || {};
      if (!meta.log && follow(drawn.view)) mark(drawn.view, place, meta.range);
    } catch (error) {
      place.textContent = "This chart could not be drawn; its table is below.";
      console.error(place.dataset.chart, error);
    }
  }

  const waiting = (within) => within.querySelectorAll("[data-chart]:not([data-drawn])");

  // What is folded away is drawn when it is opened.
  const folds = document.querySelectorAll("details.fold");
  for (const fold of folds) {
    fold.addEventListener("toggle", async function () {
      if (fold.open) for (const place of waiting(fold)) await draw(place);
    });
  }

  const log = document.getElementById("log");
  if (log) {
    log.addEventListener("change", async function () {
      logarithmic = log.checked;
      for (const place of document.querySelectorAll("[data-chart][data-drawn]")) {
        const spec = page.specs[place.dataset.chart];
        if (spec.usermeta && spec.usermeta.log) await draw(place);
      }
    });
    log.checked = false; // browsers remember it over a reload
  }

  // --- the chart whose axes the reader chooses ---

  const palette = page.config.range.series || [];

  // Decades and their thirds, or powers of two.
  function logTicks(low, high, bytes) {
    const found = [];
    if (bytes) {
      const step = Math.max(1, Math.ceil(Math.log2(high / low) / 8));
      for (let power = Math.floor(Math.log2(low)); power <= Math.log2(high) + 1; power += step) found.push(2 ** power);
      return found;
    }
    const steps = high / low < 50 ? [1, 2, 5] : high / low < 400 ? [1, 3] : [1];
    for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high) + 1; power++) {
      for (const step of steps) found.push(step * 10 ** power);
    }
    return found;
  }

  function axis(field, rows) {
    const numbers = rows.map((row) => row[field.name]).filter((value) => typeof value === "number");
    if (!field.numeric) return { type: "nominal", sort: field.values, axis: { labelAngle: 0, labelLimit: 90 } };
    const low = Math.min(...numbers), high = Math.max(...numbers);
    const bytes = field.unit === "bandwidth";
    const made = { type: "quantitative", scale: { zero: field.kind === "figure", nice: true }, axis: { labelExpr: field.label } };
    if (low > 0 && high / low >= 20) {
      made.scale = { type: "log", nice: false, domain: [low * 0.85, high * 1.15] };
      made.axis.values = logTicks(low, high, bytes);
    } else if (bytes && high > 0) {
      const step = 2 ** Math.ceil(Math.log2(high / 5));
      made.axis.values = Array.from({ length: Math.floor(high / step) + 2 }, (_, at) => at * step);
    }
    if (field.kind === "label") {
      made.axis.values = [...new Set(numbers)].sort((a, b) => a - b).slice(0, 20);
      made.scale = made.scale.type ? { type: "log", nice: false, padding: 10 } : { zero: false, nice: false, padding: 10 };
    }
    return made;
  }

  function chosen(form) {
    const { fields, rows } = page.chooser;
    const find = (name) => fields.find((field) => field.name === name);
    const x = find(form.elements.x.value), y = find(form.elements.y.value), colour = find(form.elements.colour.value);
    const shown = rows.filter(function (row) {
      if (row[x.name] == null || row[y.name] == null) return false;
      return [...form.querySelectorAll("[data-filter]")].every(function (filter) {
        const name = filter.dataset.filter;
        return !filter.value || String(row[name + "t"] ?? row[name]) === filter.value;
      });
    });
    const labels = fields.filter((field) => field.kind === "label");
    const ways = labels.filter((field) => field !== x && field !== colour);
    const text = (row) => (field) => String(row[field.name + "t"] ?? row[field.name]);
    // No two values share a colour: those beyond the last one are not drawn.
    const there = new Set(colour ? shown.map((row) => text(row)(colour)) : []);
    const every = colour ? colour.values.map(String).filter((value) => there.has(value)) : [];
    const domain = every.slice(0, palette.length);
    const data = shown.filter((row) => !colour || domain.includes(text(row)(colour))).map(function (row) {
      return {
        x: row[x.name], y: row[y.name], low: row[y.name + "l"] ?? null, high: row[y.name + "h"] ?? null,
        c: colour ? text(row)(colour) : "", line: ways.map(text(row)).join(" "),
        name: labels.map(text(row)).join(" "), series: row.s,
      };
    });
    const named = (field, as) => ({ ...field, name: as });
    const shared = {
      x: { field: "x", title: x.title, ...axis(named(x, "x"), data) },
      detail: { field: "line", type: "nominal" },
    };
    if (colour) {
      const title = colour.title + (every.length > domain.length ? ` (the first ${domain.length} of ${every.length})` : "");
      const range = palette.slice(0, domain.length);
      shared.color = { field: "c", type: "nominal", scale: { domain, range }, legend: domain.length > 1 ? { title, columns: 4, symbolOpacity: 1, titleOrient: "left", titleFontWeight: "normal" } : null };
    }
    const several = fields.find((field) => field.name === "s");
    if (several && several !== x && several !== colour) {
      const domain = several.values.filter((value) => data.some((row) => row.series === value));
      const range = [[1, 0], [5, 3], [2, 2], [8, 3, 2, 3], [12, 3], [1, 4]].slice(0, domain.length);
      if (domain.length > 1) shared.strokeDash = { field: "series", type: "nominal", scale: { domain, range }, legend: { title: null, symbolType: "stroke", symbolSize: 250, symbolOpacity: 1 } };
    }
    const up = { ...axis(named(y, "y"), data), title: y.title };
    const tooltip = [
      { field: "name", type: "nominal", title: "cell" },
      { field: "x_text", type: "nominal", title: x.title },
      { field: "y_text", type: "nominal", title: y.title },
    ];
    if (data.some((row) => row.high != null)) tooltip.push({ field: "to_text", type: "nominal", title: "interval" });
    const written = (field, as) =>
      field.numeric ? field.label.replaceAll("datum.value", "datum." + as) : "datum." + as;
    const layer = [];
    const bounded = data.filter((row) => row.low != null && row.low > 0);  // a scale may be logarithmic
    // Intervals that dwarf the values are cut off, with an arrow: chart.interval_limit.
    const limit = 1.5 * Math.max(...data.map((row) => row.y));
    for (const row of bounded) Object.assign(row, { end: Math.min(row.high, limit), cut: row.high > limit });
    if (bounded.length) layer.push({ data: { values: bounded }, mark: { type: "rule", strokeWidth: 4, opacity: 0.25 }, encoding: { y: { ...up, field: "low" }, y2: { field: "end" } } });
    if (x.kind === "label" && x.numeric) layer.push({ mark: { type: "line", strokeWidth: 1.7 }, encoding: { y: { ...up, field: "y" } } });
    layer.push({ mark: { type: "point", filled: true, size: 46, opacity: 1 }, encoding: { y: { ...up, field: "y" }, tooltip } });
    const long = bounded.filter((row) => row.cut);
    if (long.length) layer.push({ data: { values: long }, mark: { type: "point", shape: "triangle-up", filled: true, size: 60, opacity: 1 }, encoding: { y: { ...up, field: "end" }, tooltip } });
    return {
      data: { values: data },
      transform: [
        { calculate: written(x, "x"), as: "x_text" }, { calculate: written(y, "y"), as: "y_text" },
        { calculate: `datum.high == null ? '–' : (${written(y, "low")}) + ' to ' + (${written(y, "high")})`, as: "to_text" },
      ],
      height: 320, width: "container", autosize: { type: "fit-x", contains: "padding" },
      encoding: shared, layer,
    };
  }

  async function choose() {
    const form = document.querySelector("form.choose");
    if (!form) return;
    const place = document.querySelector("[data-chooser]");
    const redraw = async function () {
      try {
        await embed(place, chosen(form));
      } catch (error) {
        place.textContent = "This chart could not be drawn.";
        console.error("chooser", error);
      }
    };
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("change", redraw);
    form.reset();
    await redraw();
  }

  // Commands can be copied with one click; without this script, they can be selected.
  for (const text of document.querySelectorAll("pre.wrapped")) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
    button.addEventListener("click", function () {
      getSelection().selectAllChildren(text);
      if (document.execCommand("copy")) button.textContent = "Copied";
    });
    text.before(button);
  }

  // On paper, short tables are unfolded.
  const unfolded = [];
  addEventListener("beforeprint", function () {
    for (const table of document.querySelectorAll("details.short:not([open]), details.other:not([open])")) {
      table.open = true;
      unfolded.push(table);
    }
  });
  addEventListener("afterprint", function () {
    while (unfolded.length) unfolded.pop().open = false;
  });

  (async function () {
    for (const place of waiting(document)) if (!place.closest("details.fold:not([open])")) await draw(place);
    await choose();
    document.documentElement.dataset.drawn = "yes";
  })();
})();
