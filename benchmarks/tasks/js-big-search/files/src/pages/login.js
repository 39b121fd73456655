const { request } = require("../api/fetch.js");

function loadLogin(id) {
  return request(`/login/${id}`);
}

function title() {
  return "Login";
}

module.exports = { loadLogin, title };
