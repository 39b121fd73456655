const { request } = require("../api/fetch.js");

function loadNews(id) {
  return request(`/news/${id}`);
}

function title() {
  return "News";
}

module.exports = { loadNews, title };
