import configparser


def load(section, path="settings.ini"):
    parser = configparser.ConfigParser()
    parser.read(path, encoding="utf-8")
    return {"debug": parser.getboolean(section, "debug"), "workers": parser.getint(section, "workers")}
