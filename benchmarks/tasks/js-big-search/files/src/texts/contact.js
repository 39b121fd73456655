module.exports = {
  title: "Contact",
  intro: "Welcome to contact.",
};
