const { request } = require("../api/fetch.js");

function loadAbout(id) {
  return request(`/about/${id}`);
}

function title() {
  return "About";
}

module.exports = { loadAbout, title };
