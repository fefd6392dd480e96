// Draws the charts. Colours are CSS variables, so that a change of colour scheme, or printing, needs no redrawing.
(function () {
  "use strict";
  const page = JSON.parse(document.getElementById("charts").textContent);
  const views = [];
  let zooming = false;

  // Charts over time zoom together.
  function follow(view) {
    try {
      view.signal("zoom_t");
    } catch (_) {
      return;
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
  }

  async function draw(place) {
    const spec = page.specs[place.dataset.chart];
    try {
      const drawn = await vegaEmbed(place, spec, {
        actions: false,
        ast: true, // expressions are interpreted: the page's policy forbids making code of text
        config: page.config,
        defaultStyle: false,
        renderer: "svg",
      });
      follow(drawn.view);
    } catch (error) {
      place.textContent = "This chart could not be drawn; its table is below.";
      console.error(place.dataset.chart, error);
    }
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
    for (const place of document.querySelectorAll(".chart")) await draw(place);
    document.documentElement.dataset.drawn = "yes";
  })();
})();
