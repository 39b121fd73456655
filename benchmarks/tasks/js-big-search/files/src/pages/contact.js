const { request } = require("../api/fetch.js");

function loadContact(id) {
  return request(`/contact/${id}`);
}

function title() {
  return "Contact";
}

module.exports = { loadContact, title };
