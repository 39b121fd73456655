module.exports = {
  title: "About",
  intro: "Welcome to about.",
};
