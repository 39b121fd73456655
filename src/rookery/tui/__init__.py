"""The full-screen client, built with Textual.

`FullScreen` is the app, `SessionView` the session it shows, `TranscriptView` the conversation. The
package talks to a host through `protocol`. Only what is visible is laid out.
"""
