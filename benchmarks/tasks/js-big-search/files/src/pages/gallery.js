const { request } = require("../api/fetch.js");

function loadGallery(id) {
  return request(`/gallery/${id}`);
}

function title() {
  return "Gallery";
}

module.exports = { loadGallery, title };
