module.exports = {
  title: "Inbox",
  intro: "Welcome to inbox.",
};
