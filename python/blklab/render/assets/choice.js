// The button needs two or more chosen rows; without this script, the server says so.
"use strict";
(function () {
  const form = document.getElementById("choice");
  const button = form.querySelector("button");
  const hint = form.querySelector("[role=status]");
  const most = Number(form.dataset.most);

  function update() {
    const chosen = document.querySelectorAll("input[form=choice]:checked");
    const count = new Set([...chosen].map((box) => box.value)).size; // a row can be in two tables
    button.disabled = count < 2 || count > most;
    hint.textContent = count > most ? `At most ${most} can be compared, ${count} are chosen.`
      : count < 2 ? "Choose two or more." : `${count} chosen.`;
  }

  document.addEventListener("change", update);
  addEventListener("pageshow", update); // a browser remembers what was chosen
  update();
})();
