"use strict";
(function () {
  function value(row, column) {
    var cell = row.cells[column];
    if (!cell) { return ""; }
    var text = cell.dataset.sort || cell.textContent.trim();
    var parsed = parseFloat(text.replace(/[,%+\u2212]/g, function (c) { return c === "\u2212" ? "-" : ""; }));
    return isNaN(parsed) ? text : parsed;
  }
  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") { return a - b; }
    if (typeof a === "number") { return -1; }
    if (typeof b === "number") { return 1; }
    return a < b ? -1 : a > b ? 1 : 0;
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    table.querySelectorAll("thead th").forEach(function (head) {
      var button = document.createElement("button");
      button.type = "button";
      while (head.firstChild) { button.appendChild(head.firstChild); }
      head.appendChild(button);
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        table.querySelectorAll("thead th").forEach(function (other) { other.removeAttribute("aria-sort"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        var rows = Array.from(table.tBodies[0].rows);
        rows.sort(function (a, b) {
          var order = compare(value(a, head.cellIndex), value(b, head.cellIndex));
          return down ? -order : order;
        });
        rows.forEach(function (row) { table.tBodies[0].appendChild(row); });
      });
    });
  });
  document.querySelectorAll("input.filter").forEach(function (input) {
    var table = document.getElementById(input.dataset.table);
    input.closest("label").hidden = false;
    input.addEventListener("input", function () {
      var wanted = input.value.toLowerCase();
      Array.from(table.tBodies[0].rows).forEach(function (row) {
        row.hidden = row.cells[0].textContent.toLowerCase().indexOf(wanted) < 0;
      });
    });
  });
  document.querySelectorAll(".wide-scroll.end").forEach(function (one) { one.scrollLeft = one.scrollWidth; });
  var opened = document.getElementById("opened");
  document.querySelectorAll("td.place[data-task]").forEach(function (cell) {
    cell.tabIndex = 0;
    function open() {
      opened.textContent = cell.title + "  ht show " + cell.dataset.run + ":" + cell.dataset.task;
      opened.hidden = false;
    }
    cell.addEventListener("click", open);
    cell.addEventListener("focus", open);
  });
  function reveal() {
    var target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") { target.open = true; }
  }
  window.addEventListener("hashchange", reveal);
  reveal();
  document.querySelectorAll("button.all").forEach(function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var every = document.querySelectorAll("#" + button.dataset.of + " details");
      var open = Array.from(every).some(function (one) { return !one.open; });
      every.forEach(function (one) { one.open = open; });
    });
  });
})();
