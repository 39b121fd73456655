const { request } = require("../api/fetch.js");

function loadHelp(id) {
  return request(`/help/${id}`);
}

function title() {
  return "Help";
}

module.exports = { loadHelp, title };
