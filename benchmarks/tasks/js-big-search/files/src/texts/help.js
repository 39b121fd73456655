module.exports = {
  title: "Help",
  intro: "Welcome to help.",
};
