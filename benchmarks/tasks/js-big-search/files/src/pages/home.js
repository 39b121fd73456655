const { request } = require("../api/fetch.js");

function loadHome(id) {
  return request(`/home/${id}`);
}

function title() {
  return "Home";
}

module.exports = { loadHome, title };
