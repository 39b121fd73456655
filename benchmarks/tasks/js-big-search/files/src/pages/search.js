const { request } = require("../api/fetch.js");

function loadSearch(id) {
  return request(`/search/${id}`);
}

function title() {
  return "Search";
}

module.exports = { loadSearch, title };
