const { request } = require("../api/fetch.js");

function loadSettings(id) {
  return request(`/settings/${id}`);
}

function title() {
  return "Settings";
}

module.exports = { loadSettings, title };
