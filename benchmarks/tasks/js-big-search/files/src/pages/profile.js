const { request } = require("../api/fetch.js");

function loadProfile(id) {
  return request(`/profile/${id}`);
}

function title() {
  return "Profile";
}

module.exports = { loadProfile, title };
