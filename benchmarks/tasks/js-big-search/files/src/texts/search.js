module.exports = {
  title: "Search",
  intro: "Welcome to search.",
};
