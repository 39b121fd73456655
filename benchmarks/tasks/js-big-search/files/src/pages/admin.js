const { request } = require("../api/fetch.js");

function loadAdmin(id) {
  return request(`/admin/${id}`);
}

function title() {
  return "Admin";
}

module.exports = { loadAdmin, title };
