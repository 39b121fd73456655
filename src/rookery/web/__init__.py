"""Pages and searches of the web.

`web_tools` has the tools, `page_fetch` gets a page from an address that was checked, `page_text`
and `html_text` make text of it, `search_engines` asks a search engine. Nothing here runs a script
or sends cookies; that is the browser's part. The web server of the Agent Manager is in `manager`.
"""
