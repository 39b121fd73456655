const { legacyFetch } = require("../api/fetch.js");

function loadReports(id) {
  return legacyFetch(`/reports/${id}`);
}

function title() {
  return "Reports";
}

module.exports = { loadReports, title };
