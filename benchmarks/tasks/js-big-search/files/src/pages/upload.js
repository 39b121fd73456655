const { request } = require("../api/fetch.js");

function loadUpload(id) {
  return request(`/upload/${id}`);
}

function title() {
  return "Upload";
}

module.exports = { loadUpload, title };
