class AppError(Exception):
    pass


class UnknownUser(AppError):
    pass


class UnknownGroup(AppError):
    pass
